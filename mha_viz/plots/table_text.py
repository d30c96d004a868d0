"""Tables as text: CSV that no spreadsheet runs, LaTeX with booktabs and siunitx, and Markdown."""

import csv
import math
import re
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pandas as pd

from mha_viz.web.labels import drawable

# What makes a spreadsheet read a cell as a formula, quotes or not; wide signs count in East Asia.
_SIGNS = "=+\\-@＝＋－＠"
# Where a cell may begin, also for a spreadsheet that parts cells elsewhere than we do: where people
# write 0,5 it parts them by ";", and then a quote behind a "," is a letter to it.
_FORMULA = re.compile(rf"(?:^|(?<=[,;\t\r\n]))(?=[\"']*[{_SIGNS}\t\r\n])")
_NO_CELL = re.compile(rf"(?<=[,;])(?=[\"'{_SIGNS}])")  # in a comment line, which has no quotes


MOST_UNASKED = 10**6  # attention weights that become a file at once; more take an answer first
CELL_BYTES = 15  # nine digits, "0.000" or "e-05", and a comma


def csv_text(table: pd.DataFrame) -> str:
    """Return a table as CSV, as every file and command writes it.

    Texts stand in quotes, numbers do not, and have the nine digits that a float32 needs. An index
    that only counts rows is left out. An apostrophe stands where a spreadsheet would see a formula
    begin: before "=", "+", "-", "@", a tab or a line end, at the start of a text or behind what may
    part cells (",", ";", a tab, a line end), with or without apostrophes and quotes between them.
    Removing one apostrophe from each of these places restores the text.

    >>> print(csv_text(pd.DataFrame({"token": ["=1+1", "a;=1"], "weight": [-0.5, 1.0]})), end="")
    "token","weight"
    "'=1+1",-0.5
    "a;'=1",1.0
    """
    counted = isinstance(table.index, pd.RangeIndex) and table.index.name is None
    written = table.copy()
    written.columns = pd.RangeIndex(table.shape[1])  # two columns may have the same name
    for i in range(table.shape[1]):
        values = [_cell(value) for value in table.iloc[:, i].tolist()]
        written[i] = pd.Series(values, table.index, dtype=object)
    written.columns = pd.Index([_cell(name) for name in table.columns])
    written.index = table.index.map(_cell)
    return written.to_csv(index=not counted, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")


def table_csv(table: pd.DataFrame, caption: str) -> bytes:
    """Return a table as CSV under comment lines, one for each line of the caption."""
    return commented_csv(table, caption.splitlines())


def commented_csv(table: pd.DataFrame, notes: Iterable[str]) -> bytes:
    """Return a table as CSV under `# ` lines that describe it; a "#" in a text begins no comment.

    To a spreadsheet these are cells, too, and notes hold texts: see `csv_text`.
    """
    lines = (_NO_CELL.sub("'", " ".join(note.split())) for note in notes)
    head = "".join(f"# {line}\n" for line in lines if line)
    return (head + csv_text(table)).encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    """Return a float with nine digits (pandas' float_format makes texts of them), a safe text."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return _FORMULA.sub("'", value) if isinstance(value, str) else value


_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#|~$&:@!]|(?<=www)\.")  # GitHub links addresses, too
_TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def table_latex(table: pd.DataFrame, caption: str) -> str:
    r"""Return a table in LaTeX: rules by booktabs, numbers aligned by siunitx.

    Numbers have three decimals, or two significant digits where that would leave none.

    >>> table = pd.DataFrame({"head": ["L0 H3"], "p_q": [2e-7], "n": [97]})
    >>> print(table_latex(table, "50 % of\nthem").split("{lSS}")[1].split("\\end")[0])
    <BLANKLINE>
    \toprule
    {head} & {p\_q} & {n} \\
    \midrule
    L0 H3 & 2.0e-07 & 97 \\
    \bottomrule
    <BLANKLINE>
    """
    written = table.reset_index(drop=isinstance(table.index, pd.RangeIndex))
    names = [_tex(name) for name in written]
    written.columns = pd.RangeIndex(len(names))  # two columns may have the same name
    texts = written.map(lambda value: _tex(value) if isinstance(value, str | bool) else value)
    styled = texts.style.hide(axis="index").format(_decimals, na_rep="{--}")
    tabular = styled.format_index(lambda i: names[cast(int, i)], axis="columns").to_latex(
        hrules=True, siunitx=True, caption=_tex(caption), position="t"
    )
    return f"% \\usepackage{{booktabs, siunitx}}\n{tabular}"


def table_markdown(table: pd.DataFrame, caption: str = "") -> str:
    r"""Return a table in GitHub's Markdown, below its caption; texts are shown as they are.

    >>> print(table_markdown(pd.DataFrame({"token": ["a|b"], "weight": [0.51234]})))
    | token | weight |
    | :-- | --: |
    | a\|b | 0.512 |
    <BLANKLINE>
    """
    rows = table.reset_index(drop=isinstance(table.index, pd.RangeIndex))
    ways = ["--:" if pd.api.types.is_numeric_dtype(dtype) else ":--" for dtype in rows.dtypes]
    cells = [[markdown(_decimals(value)) for value in row] for row in rows.itertuples(index=False)]
    lines = [[markdown(name) for name in rows], ways, *cells]
    caption_block = f"{markdown(caption)}\n\n" if caption else ""
    return caption_block + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown(text: object) -> str:
    """Return any text for one line of Markdown, where it is shown as it is."""
    return _MARKUP.sub(r"\\\g<0>", _line(text))


def _line(text: object) -> str:
    return " ".join(drawable(str(text)).split())


def _tex(text: object) -> str:
    return _line(text).translate(_TEX)


def _decimals(value: Any) -> str:
    if value is pd.NA or value is None:  # such as the head of a component that is none
        return "–"
    if not isinstance(value, float | np.floating):
        return str(value)
    value = float(value)
    if math.isnan(value):
        return "–"
    return f"{value:.3f}" if value == 0 or not abs(value) < 1e-3 else f"{value:.1e}"
