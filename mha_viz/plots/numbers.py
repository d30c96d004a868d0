"""A small matrix with its numbers written into the cells: the arithmetic of the labs.

Knows arrays, colours and how wide text is. Must not know what the numbers mean, nor how a browser
draws them: that is in mha_viz/ui/components/number_table.js.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mha_viz.errors import ArgumentError
from mha_viz.plots.cells import ends_of
from mha_viz.plots.frame import Limits, as_numbers
from mha_viz.plots.labels import clean, clean_all

MAX_CELLS = 4_096
_WIDTH, _HEIGHT = 46, 30  # of a cell with a number in it, in pixels
_LETTER = 7  # about the width of one, in pixels
_EDGE, _SLANTED = 8, 44  # pixels beside the cells, and with slanted names above them
_NAME = 14  # letters of a name beside the cells; hover tells all of it


def number_matrix(
    values: Any,
    title: str,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    *,
    shape: str = "",
    diverging: bool = True,
    limits: Limits | None = None,
    marked: Sequence[tuple[int, int]] = (),
    note: str = "",
    cell: int = _WIDTH,
    room: int | None = None,
    decimals: int = 2,
) -> dict[str, Any]:
    """A matrix as coloured cells, each with its number, as plain JSON values for the browser.

    Args:
        values: (row, column); what is not finite has no colour and says "–" (masked).
        title: what it is called, as "Q" or "softmax"; `shape` in words, as "3 tokens × 4".
        rows, columns: a name for each; any text; none for no names.
        diverging: whether numbers have a sign; else the scale goes from the least to the largest.
        limits: lowest and highest value of the scale, where several matrices share it.
        marked: cells that are framed, as (row, column).
        note: said below row, column and value of a cell under the pointer; {row} and {column} in
            it are their names.
        cell: width of a cell in pixels; below 30 no numbers are written.
        room: pixels that there are for all of it, where that is known and little (a phone): cells
            become narrower to fit.
        decimals: of the numbers in the cells; hover shows more.

    Raises:
        ShapeError: not a matrix. ArgumentError: more than 4,096 cells.
    """
    numbers = as_numbers(values, 2, "values")
    n_rows, n_columns = numbers.shape
    if numbers.size > MAX_CELLS:
        raise ArgumentError(
            f"A matrix of {n_rows} x {n_columns} is too large to be written out: at most "
            f"{MAX_CELLS:,} cells."
        )
    names = clean_all(rows or [str(i) for i in range(n_rows)], n_rows, "rows")
    heads = clean_all(columns or [str(i) for i in range(n_columns)], n_columns, "columns")
    if room is not None:
        around = _left(names if rows else []) + (_SLANTED if columns else _EDGE)
        cell = max(1, min(cell, (room - around) // n_columns))
    written = cell >= 30
    low, high = ends_of(numbers, diverging, limits)
    finite = np.isfinite(numbers)
    return {
        "title": clean(title, 60), "shape": shape, "names": [names, heads],
        "shown": [[_short(name) for name in names] if rows else None,
                  [_short(name) for name in heads] if columns else None],
        "slanted": bool(columns) and max(map(len, heads)) * _LETTER > cell,
        # Six digits: more than the page ever shows.
        "numbers": [float(f"{value:.6g}") if known else None
                    for value, known in zip(numbers.flat, finite.flat, strict=True)],
        "texts": [_text(value, decimals) for value in numbers.flat] if written else None,
        "scale": "diverging" if diverging else "sequential", "low": low, "high": high,
        "marked": [[int(row), int(column)] for row, column in marked], "note": note,
        "cell": [cell, min(_HEIGHT, cell)],
    }  # fmt: skip


def _left(rows: list[str]) -> int:
    """Room for the names of the rows."""
    return 10 + _LETTER * min(_NAME, max(map(len, rows))) if rows else 6


def _short(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"


def _text(value: float, decimals: int) -> str:
    if not np.isfinite(value):
        return "–"
    short = f"{value:.{decimals}f}"
    short = short.lstrip("-") if float(short) == 0 else short
    return short if len(short) <= 6 else f"{value:.0e}"
