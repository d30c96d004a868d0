"""A small matrix with its numbers in its cells, for the arithmetic of the labs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_viz.errors import ArgumentError
from mha_viz.plots.cells import ends_of
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

    Args:
        title: what it is called.
        names: of rows and columns, shown with a cell under the pointer.
        numbers: row after row; None is not defined; on the scale "colours" red, green and blue.
        low: where the colour scale begins.
        high: where it ends.
        scale: "diverging", "sequential", "sqrt", "grey" or "colours".
        cell: width and height in pixels.
        shape: written behind the title, smaller.
        shown: the names that stand beside the cells, of rows and columns; None for none.
        slanted: whether those of the columns are slanted.
        texts: what is written into the cells; None for cells too small for it.
        marked: as for `number_matrix`.
        note: as for `number_matrix`.
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
    """A matrix as coloured cells, each with its number.

    Args:
        values: (row, column); what is not finite has no colour and shows "–" (masked).
        title: what it is called, as "Q" or "softmax".
        rows: a name for each; any text; none for no names.
        columns: likewise.
        shape: in words, as "3 tokens × 4".
        diverging: whether numbers have a sign; else the scale goes from the least to the largest.
        limits: lowest and highest value of the scale, where several matrices share it.
        marked: cells that are framed, as (row, column).
        note: shown below row, column and value of a cell under the pointer, with their names in
            place of {row} and {column}.
        cell: width of a cell in pixels; below 30 no numbers are written.
        letters: of a name beside the cells; hover shows all of it.
        room: pixels that there are for all of it, where that is known and little (a phone): cells
            become narrower to fit.

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
    low, high = ends_of(numbers, diverging, limits)
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
    """All numbers, row after row, with six digits, more than a page ever shows; None for NaN."""
    return [float(f"{n:.6g}") if math.isfinite(n) else None for n in numbers.ravel().tolist()]


def _left(rows: list[str], letters: int) -> int:
    """Room for the names of the rows."""
    return 10 + _LETTER * min(letters, max(map(len, rows))) if rows else 6


def _short(name: str, letters: int) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _text(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    short = f"{value:.2f}"
    short = short.lstrip("-") if float(short) == 0 else short
    return short if len(short) <= 6 else f"{value:.0e}"
