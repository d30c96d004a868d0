"""Tables as LaTeX and Markdown: any text is shown as it is, and numbers stay numbers."""

import re

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from mha_viz.plots.table_text import markdown, table_latex, table_markdown

TABLE = pd.DataFrame(
    {
        "Head": ["L0 H1", r"\input{/etc/passwd} & 50 %"],
        "weight": np.array([1 / 3, np.nan], np.float32),
        "q": [2e-7, 0.04],
        "n": [1345, 7],
        "beats": [True, False],
    }
)


def body(latex: str) -> list[list[str]]:
    inside = latex.split("\\midrule\n")[1].split("\\bottomrule")[0]
    return [re.split(r"(?<!\\)&", line.removesuffix(r" \\")) for line in inside.splitlines()]


def test_latex_has_rules_aligned_numbers_and_no_command_of_a_text() -> None:
    latex = table_latex(TABLE, "tiny_bert\n50 % of #1")
    assert "\\caption{tiny\\_bert 50 \\% of \\#1}" in latex
    assert "\\begin{tabular}{lSSSl}" in latex and "\\toprule" in latex
    first, second = ([cell.strip() for cell in row] for row in body(latex))
    assert first == ["L0 H1", "0.333", "2.0e-07", "1345", "True"]
    text = r"\textbackslash{}input\{/etc/passwd\} \& 50 \%"
    assert second == [text, "{--}", "0.040", "7", "False"]


def test_markdown_has_a_row_a_line_and_numbers_on_the_right() -> None:
    told, _, names, ways, *rows = table_markdown(TABLE, "a\nb").splitlines()
    assert told == "a b" and names == "| Head | weight | q | n | beats |"
    assert ways == "| :-- | --: | --: | --: | --: |"
    assert rows[0] == "| L0 H1 | 0.333 | 2.0e-07 | 1345 | True |"
    assert rows[1].split(" | ")[1:] == ["–", "0.040", "7", "False |"]
    whole = pd.DataFrame({"component": ["embedding"], "head": pd.array([None], "Int64")})
    assert table_markdown(whole).splitlines()[-1] == "| embedding | – |"


@given(st.text(), st.text())
def test_any_text_stays_in_its_cell(name: str, text: str) -> None:
    table = pd.DataFrame({name: [text], "n": [7]})
    _, _, row = table_markdown(table).splitlines()
    assert len(re.split(r"(?<!\\)\|", row)) == 4
    latex = table_latex(table, text)
    (cells,) = body(latex)
    assert len(cells) == 2 and cells[1].strip() == "7"
    commands = set(re.findall(r"\\[a-z]+", "".join(cells)))
    assert commands <= {"\\textbackslash", "\\textasciitilde", "\\textasciicircum"}
    assert "<" not in markdown(text).replace("\\<", "")
