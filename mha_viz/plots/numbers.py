"""A small matrix with its numbers written into the cells: the arithmetic of the labs.

Knows plotly and arrays. Must not know what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError
from mha_viz.plots import theme
from mha_viz.plots.cells import colours_of
from mha_viz.plots.frame import Limits, as_numbers
from mha_viz.plots.labels import clean, clean_all, plotly_text

MAX_CELLS = 4_096
_WIDTH, _HEIGHT = 46, 30  # of a cell with a number in it, in pixels
_LETTER = 7  # about the width of one, in pixels
_EDGE, _SLANTED = 8, 44  # pixels beside the cells, and with slanted names above them


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
    hover: Sequence[Sequence[str]] = (),
    cell: int = _WIDTH,
    room: int | None = None,
    decimals: int = 2,
    dark: bool = False,
) -> go.Figure:
    """A matrix as coloured cells, each with its number; as large as its cells need.

    Args:
        values: (row, column); what is not finite is hatched nowhere and says "–" (masked).
        title: what it is called, as "Q" or "softmax"; `shape` in words, as "3 tokens × 4".
        rows, columns: a name for each; any text; none for no names.
        diverging: whether numbers have a sign; else the scale goes from the least to the largest.
        limits: lowest and highest value of the scale, where several matrices share it.
        marked: cells that are framed, as (row, column).
        hover: a sentence for each cell; else row, column and the exact value.
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
    cells = dict(
        type="heatmap", z=numbers, **colours_of(numbers, diverging, limits, dark), showscale=False,
        xgap=1, ygap=1, hoverongaps=True, hoverinfo="text",
        hovertext=[list(line) for line in hover] or _hover(numbers, names, heads, title),
        text=_texts(numbers, decimals) if written else None,
        texttemplate="%{text}" if written else None, textfont=dict(size=12),
    )  # fmt: skip
    layout = _axes(names if rows else [], heads if columns else [], numbers.shape, cell, dark)
    small = f'<span style="font-size:12px;color:{theme.muted(dark)}"> {plotly_text(shape)}</span>'
    layout["title"] |= dict(
        text=f"<b>{plotly_text(clean(title, 60))}</b>{small if shape else ''}",
        y=1, yref="container", yanchor="top", pad=dict(t=10, l=4),
    )  # fmt: skip
    layout["width"] = max(layout["width"], 40 + _LETTER * (len(title) + len(shape)))
    layout["shapes"] = [
        dict(
            type="rect", x0=column - 0.5, x1=column + 0.5, y0=row - 0.5, y1=row + 0.5,
            line=dict(width=3, color=theme.accent(dark)),
        )
        for row, column in marked
    ]  # fmt: skip
    return go.Figure(dict(data=[cells], layout=layout))  # in one go: piece by piece is slow


def _left(rows: list[str]) -> int:
    """Room for the names of the rows."""
    return 10 + _LETTER * min(14, max(map(len, rows))) if rows else 6


def _axes(
    rows: list[str], columns: list[str], shape: tuple[int, ...], cell: int, dark: bool
) -> dict[str, Any]:
    """A layout with room for the cells and for the names that there are."""
    n_rows, n_columns = shape
    left = _left(rows)
    slanted = bool(columns) and max(map(len, columns)) * _LETTER > cell
    top = 40 + (20 if columns else 0) + (34 if slanted else 0)
    right = _SLANTED if slanted else _EDGE
    layout = theme.layout(dark)
    plain = dict(showgrid=False, zeroline=False, fixedrange=True, ticks="")
    layout["xaxis"] |= plain | dict(
        tickvals=list(range(len(columns))), ticktext=_ticks(columns), side="top",
        tickangle=-40 if slanted else 0, range=[-0.5, n_columns - 0.5],
    )  # fmt: skip
    layout["yaxis"] |= plain | dict(
        tickvals=list(range(len(rows))), ticktext=_ticks(rows), range=[n_rows - 0.5, -0.5]
    )
    return layout | dict(
        width=left + cell * n_columns + right,
        height=top + min(_HEIGHT, cell) * n_rows + 8,
        margin=dict(l=left, r=right, t=top, b=8, autoexpand=False),
    )


def _texts(numbers: np.ndarray, decimals: int) -> list[list[str]]:
    return [[_text(value, decimals) for value in row] for row in numbers]


def _text(value: float, decimals: int) -> str:
    if not np.isfinite(value):
        return "–"
    short = f"{value:.{decimals}f}"
    short = short.lstrip("-") if float(short) == 0 else short
    return short if len(short) <= 6 else f"{value:.0e}"


def _hover(numbers: np.ndarray, rows: list[str], columns: list[str], title: str) -> list[list[str]]:
    name = plotly_text(clean(title, 60))
    return [
        [
            f"{name} · {plotly_text(row)} · {plotly_text(column)}<br>"
            f"<b>{theme.format_number(value)}</b>"
            for column, value in zip(columns, line, strict=True)
        ]
        for row, line in zip(rows, numbers, strict=True)
    ]


def _ticks(names: list[str]) -> list[str]:
    return [plotly_text(name if len(name) <= 14 else name[:13] + "…") for name in names]
