"""A small matrix with its numbers in its cells, for the arithmetic of the labs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_viz.errors import ArgumentError
from mha_viz.plots.cells import scale_limits
from mha_viz.plots.frame import Limits, as_numbers
from mha_viz.web.labels import clean, clean_all

MAX_CELLS = 4_096
_WIDTH, _HEIGHT = 46, 30  # of a cell with a number in it, in pixels
_LETTER = 7  # about the width of one, in pixels
_EDGE, _SLANTED = 8, 44  # pixels beside the cells, and with slanted names above them
_NAME = 14  # letters of a name beside the cells


@dataclass(frozen=True)
class Cells:
    """A matrix as the browser draws it: plain JSON values.

    `names` of rows and columns are shown with a cell under the pointer, those `shown` stand beside
    the cells. `numbers` stand row after row; None is not defined; on the scale "colours" they are
    red, green and blue. The scale runs from `low` to `high`; it is "diverging", "sequential",
    "sqrt", "grey" or "colours". `cell` is width and height in pixels, `shape` is written behind the
    title, `texts` into the cells (None: too small for it). `marked` and `note` are as for
    `number_matrix`.
    """

    title: str
    names: Sequence[Sequence[str]]
    numbers: Sequence[float | None] | Sequence[Sequence[float] | None]
    low: float
    high: float
    scale: str
    cell: tuple[float, float]
    shape: str = ""
    shown: Sequence[Sequence[str] | None] = (None, None)
    slanted: bool = False
    texts: Sequence[str] | None = None
    marked: Sequence[tuple[int, int]] = ()
    note: str = ""


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
    letters: int = _NAME,
    room: int | None = None,
) -> Cells:
    """Make coloured cells of a matrix (row, column), each with its number; "–" where it has none.

    `rows` and `columns` name them, where given, in at most `letters`. Without `limits` the scale
    takes what the numbers need, symmetric around 0 where they are `diverging`. `marked` cells (row,
    column) are framed. `note` is shown below row, column and value of a cell under the pointer,
    with their names in place of {row} and {column}. `cell` is a cell's width; below 30 no numbers
    are written. Cells become narrower to fit `room` pixels, where that is known and little (a
    phone).

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
        around = _left(names if rows else [], letters) + (_SLANTED if columns else _EDGE)
        cell = max(1, min(cell, (room - around) // n_columns))
    low, high = scale_limits(numbers, diverging, limits)
    return Cells(
        clean(title, 60),
        (names, heads),
        short_numbers(numbers),
        low,
        high,
        "diverging" if diverging else "sequential",
        (float(cell), float(min(_HEIGHT, cell))),
        shape,
        shown=(
            [_short(name, letters) for name in names] if rows else None,
            [_short(name, letters) for name in heads] if columns else None,
        ),
        slanted=bool(columns) and max(map(len, heads)) * _LETTER > cell,
        texts=[_text(value) for value in numbers.flat] if cell >= 30 else None,
        marked=[(int(row), int(column)) for row, column in marked],
        note=note,
    )


def short_numbers(numbers: NDArray[np.float64]) -> list[float | None]:
    """Return all numbers, row after row, with six digits, more than a page shows; None for NaN."""
    return [float(f"{n:.6g}") if math.isfinite(n) else None for n in numbers.ravel().tolist()]


def _left(rows: list[str], letters: int) -> int:
    """Return room for the names of the rows."""
    return 10 + _LETTER * min(letters, max(map(len, rows))) if rows else 6


def _short(name: str, letters: int) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _text(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    short = f"{value:.2f}"
    short = short.lstrip("-") if float(short) == 0 else short
    return short if len(short) <= 6 else f"{value:.0e}"
