"""Tables as CSV: texts that no spreadsheet runs, and numbers that stay numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

# What makes a spreadsheet read a cell as a formula, quotes or not; wide signs count in East Asia.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")


def csv_text(table: pd.DataFrame) -> str:
    """A table as CSV, as every file and command writes it.

    Texts stand in quotes, numbers do not, and have the nine digits that a float32 needs. An index
    that only counts rows is left out. A text that a spreadsheet would run as a formula (it begins
    with "=", "+", "-", "@", a tab or a line end) gets an apostrophe before it, and so does one that
    begins so after apostrophes: removing one apostrophe from each of these restores it.

    >>> print(csv_text(pd.DataFrame({"token": ["=1+1", "'s"], "weight": [-0.5, 1.0]})), end="")
    "token","weight"
    "'=1+1",-0.5
    "'s",1.0
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
    """A table as CSV under comment lines, one for each line of the caption."""
    return commented_csv(table, caption.splitlines())


def commented_csv(table: pd.DataFrame, notes: Iterable[str]) -> bytes:
    """A table as CSV under `# ` lines that say what it is; a "#" in a text begins no comment."""
    head = "".join(f"# {' '.join(note.split())}\n" for note in notes if note.strip())
    return (head + csv_text(table)).encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    """A float with nine digits (pandas' own float_format makes texts of floats), a safe text."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
