"""A small matrix with its numbers in its cells, for the arithmetic of the labs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

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


@dataclass(frozen=True)
class Cells:
    """A matrix as the browser draws it: plain JSON values.

    `names` of rows and columns are shown with a cell under the pointer, those `shown` stand beside
    the cells. `numbers` stand row after row; None is not defined; on the scale "colours" they are
    red, green and blue. The scale runs from `low` to `high`; it is "diverging", "sequential",
    "sqrt", "grey" or "colours". `cell` is width and height in pixels, `shape` is written behind the
    title, `texts` into the cells (None: too small for it). `marked` and `note` are as in
    `MatrixLook`. `said` are shown for a cell under the pointer in place of its colour's numbers.
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
    said: Sequence[float | None] | None = None


class MatrixLook(TypedDict, total=False):
    """The names and the look of a matrix with its numbers.

    `rows` and `columns` name them, where given, in at most `letters`. Without `limits` the scale
    takes what the numbers need, symmetric around 0 where they are `diverging`. `marked` cells (row,
    column) are framed. `note` is shown below row, column and value of a cell under the pointer,
    with their names in place of {row} and {column}. `cell` is a cell's width; below 30 no numbers
    are written. Cells become narrower to fit `room` pixels, where that is known and little (a
    phone).
    """

    rows: Sequence[str]
    columns: Sequence[str]
    shape: str
    diverging: bool
    limits: Limits | None
    marked: Sequence[tuple[int, int]]
    note: str
    cell: int
    letters: int
    room: int | None


_PLAIN = MatrixLook(rows=(), columns=(), shape="", diverging=True, limits=None, marked=(), note="")
_PLAIN |= MatrixLook(cell=_WIDTH, letters=14, room=None)


def number_matrix(values: Any, title: str, look: MatrixLook = _PLAIN) -> Cells:
    """Make coloured cells of a matrix (row, column), each with its number; "–" where it has none.

    Raises ShapeError: not a matrix. ArgumentError: more than 4,096 cells.
    """
    numbers, look = as_numbers(values, 2, "values"), _PLAIN | look
    n_rows, n_columns = numbers.shape
    if numbers.size > MAX_CELLS:
        raise ArgumentError(
            f"A matrix of {n_rows} x {n_columns} is too large to be written out: at most "
            f"{MAX_CELLS:,} cells."
        )
    rows = clean_all(look["rows"] or [str(i) for i in range(n_rows)], n_rows, "rows")
    columns = clean_all(look["columns"] or [str(i) for i in range(n_columns)], n_columns, "columns")
    shown = (
        [clean(name, look["letters"]) for name in rows] if look["rows"] else None,
        [clean(name, look["letters"]) for name in columns] if look["columns"] else None,
    )
    cell = look["cell"]
    if look["room"] is not None:
        beside = 10 + _LETTER * max(map(len, shown[0])) if shown[0] else 6
        around = beside + (_SLANTED if look["columns"] else _EDGE)
        cell = max(1, min(cell, (look["room"] - around) // n_columns))
    low, high = scale_limits(numbers, look["diverging"], look["limits"])
    return Cells(
        clean(title, 60),
        (rows, columns),
        short_numbers(numbers),
        low,
        high,
        "diverging" if look["diverging"] else "sequential",
        (float(cell), float(min(_HEIGHT, cell))),
        look["shape"],
        shown,
        slanted=bool(look["columns"]) and max(map(len, columns)) * _LETTER > cell,
        texts=[_text(value) for value in numbers.flat] if cell >= 30 else None,
        marked=[(int(row), int(column)) for row, column in look["marked"]],
        note=look["note"],
    )


def short_numbers(numbers: NDArray[np.float64]) -> list[float | None]:
    """Return all numbers, row after row, with six digits, more than a page shows; None for NaN."""
    return [float(f"{n:.6g}") if math.isfinite(n) else None for n in numbers.ravel().tolist()]


def _text(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    short = f"{value:.2f}"
    short = short.lstrip("-") if float(short) == 0 else short
    return short if len(short) <= 6 else f"{value:.0e}"
