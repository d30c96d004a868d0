"""Tables as LaTeX, Markdown and CSV: any text is shown as it is, and no formula runs."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_viz.plots.table_text import csv_text, markdown, table_csv, table_latex, table_markdown
from tests.strangers.spreadsheets import cells, formulas, undone

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


def test_csv_is_read_back_as_it_was() -> None:
    table = pd.DataFrame(
        {
            "Head": ["#1 <b>", 'a,"b"\nc', "L0 H1"],
            "weight": np.array([1 / 3, 2e-7, np.nan], np.float32),
            "n": [1, 2, 3],
        }
    )
    data = table_csv(table, "model # one\n\nsecond  line\r\nthird")
    assert data.startswith(b"# model # one\n# second line\n# third\n")
    read = pd.read_csv(io.BytesIO(data), comment="#")
    assert read["Head"].tolist() == table["Head"].tolist()
    assert read["n"].dtype == np.int64
    assert (read["weight"].astype(np.float32).dropna() == table["weight"].dropna()).all()
    assert b"0.333333343" in data  # nine digits: a float32 and no noise


def test_csv_survives_half_a_surrogate_pair() -> None:
    assert b"?" in table_csv(pd.DataFrame({"a": ["\ud800"]}, dtype=object), "\ud800")


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "－x", "'=1", "''+", '"=1']
HARMLESS = ["", "the", "'s", "'", "a=b", " =1", "#", "1", "–", "''", '"', "a, -b", "1,5;c"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_name_or_index_is_a_formula(text: str) -> None:
    table = pd.DataFrame({text: [text]}, index=pd.Index([text]))
    for row in cells(csv_text(table)):
        assert all(cell == "" or cell == f"'{text}" for cell in row)


def test_numbers_stay_numbers_and_other_texts_stay_as_they_are() -> None:
    numbers = [-1.5, -1e-9, 0.1, -0.0, float("nan")] * 3
    table = pd.DataFrame({"text": [*HARMLESS, *"ab"], "weight": numbers, "n": range(-7, 8)})
    data = csv_text(table)
    assert [row[0] for row in cells(data)[1:]] == [*HARMLESS, *"ab"]
    assert ",-1.5,-7\n" in data and ",-1e-09,-6\n" in data
    read = pd.read_csv(io.StringIO(data), keep_default_na=False, na_values={"weight": [""]})
    assert read["n"].tolist() == list(range(-7, 8))
    assert read["weight"].to_numpy() == pytest.approx(np.array(numbers), nan_ok=True)


@given(st.lists(st.text(st.sampled_from("'\"=+-@a\t\r\n,;＝ "), max_size=9), min_size=1))
def test_every_text_can_be_had_back_and_none_is_run(texts: list[str]) -> None:
    data = csv_text(pd.DataFrame({"t": texts, "n": 1}))
    assert [undone(row[0]) for row in cells(data)[1:]] == texts
    assert not formulas(data)


@pytest.mark.parametrize("text", ["x,=1+1", "x;=1+1", "x;@A", 'x,"=1', 'x,"y', "a\t=1"])
def test_a_text_in_a_comment_line_begins_no_cell(text: str) -> None:
    data = table_csv(pd.DataFrame({"t": ["a", "b"]}), f"weights of {text} and more").decode()
    assert not formulas(data)
    assert len(cells(data)) == len(data.splitlines()) == 4  # nor does a quote swallow lines
    assert (
        data.splitlines()[0].replace("'", "") == f"# weights of {' '.join(text.split())} and more"
    )
