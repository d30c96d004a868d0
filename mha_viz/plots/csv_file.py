"""Tables as CSV: texts that no spreadsheet runs, and numbers that stay numbers."""

import csv
import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

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
