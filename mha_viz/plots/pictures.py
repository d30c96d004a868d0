"""Cells that the browser draws: small matrices with their numbers, and pictures made of pixels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any, SupportsFloat, TypedDict

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.cells import BAR, colour_bar, missing_background, scale_limits
from mha_viz.plots.frame import QUIET, Limits, annotation, as_numbers, build_figure, framed, markers
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, plotly_text

MAX_CELLS = 4_096
_WIDTH, _HEIGHT = 46, 30  # of a cell with a number in it, in pixels
_LETTER, _DIGIT = 7, 6.5  # about the width of one, in pixels
_EDGE, _SLANTED = 8, 44  # pixels beside the cells, and with slanted names above them
_HEAD = 26  # pixels for a picture's title
_TINT = 0.75  # the largest share of the weights' colour in a picture under them
MAX_SIDE = 64
RowColumn = tuple[int, int]
_ABOVE_LEFT = dict(xref="paper", yref="paper", xanchor="left", yanchor="bottom")
_BARE = QUIET | dict(showticklabels=False, fixedrange=True, automargin=False, constrain="domain")
_BARE_X, _BARE_Y = _BARE | dict(constraintoward="left"), _BARE | dict(constraintoward="top")


@dataclass(frozen=True)
class Cells:
    """A matrix as the browser draws it: plain JSON values.

    `names` of rows and columns are shown with a cell under the pointer, those `shown` stand beside
    the cells. `numbers` stand row after row; None is not defined; on the scale "colours" they are
    red, green and blue. The scale runs from `low` to `high`; it is "diverging", "sequential",
    "sqrt", "grey" or "colours". `cell` is width and height in pixels, `shape` is written behind the
    title, `texts` into the cells (None: too small for it). `marked` and `note` are as in
    `MatrixLook`. `hovered` are shown for a cell under the pointer in place of its colour's numbers.
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
    hovered: Sequence[float | None] | None = None


class MatrixLook(TypedDict, total=False):
    """The names and the look of a matrix with its numbers.

    `rows` and `columns` name them, where given, in at most `letters`. Without `limits` the scale
    takes what the numbers need, symmetric around 0 where they are `diverging`. `marked` cells (row,
    column) are framed. `note` is shown below row, column and value of a cell under the pointer,
    with their names in place of {row} and {column}. `cell` is a cell's width: numbers in narrow
    cells have one decimal, and cells below 30 pixels have none. Cells become narrower to fit `room`
    pixels, where that is known and little (a phone).
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
        texts=_texts(numbers, cell),
        marked=[(int(row), int(column)) for row, column in look["marked"]],
        note=look["note"],
    )


def short_numbers(numbers: NDArray[np.float64]) -> list[float | None]:
    """Return all numbers, row after row, with six digits, more than a page shows; None for NaN."""
    return [float(f"{n:.6g}") if math.isfinite(n) else None for n in numbers.ravel().tolist()]


def _texts(numbers: NDArray[np.float64], cell: int) -> list[str] | None:
    """Write all numbers with two decimals, or with one where two do not fit a cell."""
    if cell < 30:
        return None
    texts = [_text(value, 2) for value in numbers.flat]
    fits = max(map(len, texts)) * _DIGIT + 2 <= cell
    return texts if fits else [_text(value, 1) for value in numbers.flat]


def _text(value: float, decimals: int) -> str:
    if not np.isfinite(value):
        return "–"
    size = abs(value)
    short = f"{value:.{decimals if size < 9.995 else 1 if size < 99.95 else 0}f}"
    short = short.lstrip("-") if float(short) == 0 else short
    return theme.true_minus(short if len(short) <= 6 else f"{value:.0e}")


def cells_figure(tables: Sequence[Cells], *, across: int, dark: bool = False) -> go.Figure:
    """Draw the browser's tables of one size beside each other, `across` in a line, for a file.

    They have the titles, marks, notes and sizes that they have in the browser, and the scales
    "grey", "colours" (what lies beyond their ends is drawn as the end that it passed, what has no
    number is black) and "sqrt" (with a colour bar; what has no number is grey). Hover shows the
    numbers.
    """
    sizes = {tuple(map(len, table.names)) for table in tables}
    if len(sizes) != 1:
        raise ShapeError("pictures beside each other must be of one size, and there must be one.")
    (rows, wide), lines, across = sizes.pop(), -(-len(tables) // across), min(across, len(tables))
    side = tables[0].cell[1] * rows
    height = lines * (side + _HEAD) + 4
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    shapes: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for i, table in enumerate(tables):
        n, (line, column) = "" if i == 0 else str(i + 1), divmod(i, across)
        top = 1 - (line * (side + _HEAD) + _HEAD) / height
        start = (column + 0.02) / across
        traces += [dict(trace, xaxis=f"x{n}", yaxis=f"y{n}") for trace in _traces(table, dark)]
        x_span = dict(domain=[start, (column + 0.98) / across], range=[-0.5, wide - 0.5])
        y_span = dict(domain=[top - side / height, top], range=[rows - 0.5, -0.5])
        axes[f"xaxis{n}"] = _BARE_X | x_span | dict(anchor=f"y{n}")
        axes[f"yaxis{n}"] = _BARE_Y | y_span | dict(anchor=f"x{n}", scaleanchor=f"x{n}")
        title = plotly_text(table.title)
        texts.append(annotation(title, start, top, theme.ink(dark), 12, **_ABOVE_LEFT))
        drawn = [missing_background(rows, wide, dark)]
        drawn += [framed((x - 0.5, y - 0.5), (x + 0.5, y + 0.5), 2, dark) for y, x in table.marked]
        shapes += [dict(shape, xref=f"x{n}", yref=f"y{n}") for shape in drawn]
    bar = 0
    if tables[0].scale == "sqrt":
        marks: dict[SupportsFloat, str] = {weight: f"{weight:g}" for weight in (0, 0.25, 0.5, 1)}
        traces[0] |= dict(showscale=True, colorbar=colour_bar(dark, marks))
        bar = BAR
    layout: dict[str, Any] = dict(shapes=shapes, annotations=texts)
    layout |= dict(margin=dict(l=2, r=2, t=bar, b=0), height=height + bar)
    layout |= dict(axes, showlegend=False, hovermode="closest", dragmode="zoom")
    return build_figure(traces, dark, layout)


def _traces(table: Cells, dark: bool) -> list[dict[str, Any]]:
    """Return the cells of a table, and invisible points over them with the text of each."""
    channels = 3 if table.scale == "colours" else 1
    flat = [(math.nan,) * channels if n is None else np.atleast_1d(n) for n in table.numbers]
    numbers = np.array(flat, dtype=float).reshape(*map(len, table.names), channels)
    note = f"{table.note} " if table.note else ""
    spoken_values = (
        flat if table.hovered is None else [(math.nan if n is None else n,) for n in table.hovered]
    )
    hovers = [
        f"{plotly_text(table.title)} · {row}, {column}<br>{note}"
        f"<b>{', '.join(map(theme.format_number, values))}</b>"
        for (row, column), values in zip(product(*table.names), spoken_values, strict=True)
    ]
    down, across = np.indices(numbers.shape[:2], dtype=np.int16).reshape(2, -1)
    points = markers(across, down, hovers, marker=dict(opacity=0, size=8, maxdisplayed=1))
    if table.scale == "sqrt":
        look = dict(colorscale=theme.colorscale("sqrt", dark), showscale=False, xgap=1, ygap=1)
        cells = dict(type="heatmap", z=numbers[:, :, 0], zmin=table.low, zmax=table.high, **look)
    else:
        shares = np.clip((numbers - table.low) / (table.high - table.low), 0.0, 1.0)
        pixels = np.round(255 * np.nan_to_num(np.broadcast_to(shares, (*numbers.shape[:2], 3))))
        cells = dict(type="image", z=pixels.astype(np.uint8))
    return [cells | dict(hoverinfo="skip"), points]


def picture_cells(
    pictures: Mapping[str, Any],
    *,
    zeros: Mapping[str, SupportsFloat] = MappingProxyType({}),
    marked: RowColumn | None = None,
    side: int = 230,
) -> list[Cells]:
    """Make pictures for the browser, by their titles, the longer side of each `side` pixels.

    A picture is (row, column) numbers in grey or (row, column, 3) colours, in [0, 1]. What `zeros`
    has for it is added to the colour, not to the number: 0.5 shows signed numbers around a middle
    grey. The pixel `marked` is framed.
    """
    drawn = []
    for title, values in pictures.items():
        numbers = _as_picture(values, title)
        rows, columns = numbers.shape[:2]
        shift, cell = float(zeros.get(title, 0.0)), side / max(rows, columns)
        flat: list[Any] = short_numbers(numbers)
        if numbers.ndim == 3:
            pixels = zip(*[iter(flat)] * 3, strict=True)
            flat = [None if None in pixel else pixel for pixel in pixels]
        cells = Cells(
            clean(title, 60),
            ([f"row {i}" for i in range(rows)], [f"column {i}" for i in range(columns)]),
            flat,
            -shift,
            1.0 - shift,
            "colours" if numbers.ndim == 3 else "grey",
            (cell, cell),
            marked=() if marked is None else (marked,),
        )
        drawn.append(cells)
    return drawn


def overlay_cells(
    picture: Any,
    weights: Float[np.ndarray | Tensor, "map row column"],
    titles: Sequence[str],
    *,
    side: int = 120,
) -> list[Cells]:
    """Make a picture under each map of its patches' weights, as `picture_cells` does.

    `picture` is (row, column) in grey, each side a multiple of that of `weights` (map, row, column
    of patches). A patch is tinted by the square root of its weight, on one scale for all maps, from
    0 to the largest weight. A pixel's number is the weight of its patch.
    """
    grey, maps = _as_picture(picture, "picture"), as_numbers(weights, 3, "weights")
    down, across = (
        pixels // patches for pixels, patches in zip(grey.shape, maps.shape[1:], strict=True)
    )
    wide = maps.repeat(down, 1).repeat(across, 2)
    if wide.shape[1:] != grey.shape:
        raise ShapeError(f"patches of {maps.shape[1:]} do not divide {grey.shape} pixels.")
    shares = _TINT * np.sqrt(np.clip(wide / (maps.max() or 1.0), 0.0, 1.0))[..., None]
    tint = np.array(theme.rgb(theme.accent.dark)) / 255
    tinted = (1 - shares) * grey[..., None] + shares * tint
    pictures = picture_cells(dict(zip(titles, tinted, strict=True)), side=side)
    return [
        replace(cells, hovered=short_numbers(weight), note="weight of its patch")
        for cells, weight in zip(pictures, wide, strict=True)
    ]


def tile_cells(
    pattern: Float[np.ndarray | Tensor, "head row column"],
    pixel: RowColumn,
    notes: Sequence[str],
    *,
    radius: int,
    cell: float = 20.0,
) -> list[Cells]:
    """Make a tile for each head for the browser: its weights around one pixel.

    `pattern` holds weights (head, row, column), `notes` what is written above each. A tile reaches
    `radius` pixels around its middle, `pixel`; those outside the picture have no number.
    """
    tiles = []
    look: dict[str, Any] = dict(low=0.0, high=1.0, scale="sqrt", cell=(cell, cell))
    heads = zip(as_numbers(pattern, 3, "pattern"), notes, strict=True)
    for head, (weights, title) in enumerate(heads):
        window, names = _window(weights, pixel, radius)
        marks: dict[str, Any] = dict(marked=((radius, radius),), note=f"weight of head {head}")
        tiles.append(Cells(clean(title, 24), names, short_numbers(window), **look, **marks))
    return tiles


def _as_picture(values: Any, title: str) -> NDArray[np.float64]:
    axes = 3 if getattr(values, "ndim", 2) == 3 else 2
    numbers = as_numbers(values, axes, title)
    if axes == 3 and numbers.shape[2] == 1:
        numbers = numbers[:, :, 0]
    if numbers.ndim == 3 and numbers.shape[2] != 3:
        raise ShapeError(f"{title}: colours are red, green and blue, got {numbers.shape[2]}.")
    if max(numbers.shape[:2]) > MAX_SIDE:
        raise ArgumentError(f"{title}: at most {MAX_SIDE} x {MAX_SIDE} pixels are drawn.")
    return numbers


def _window(
    weights: NDArray[np.float64], pixel: RowColumn, radius: int
) -> tuple[NDArray[np.float64], list[list[str]]]:
    """Return the weights around a pixel, NaN outside, and the names of rows and columns."""
    padded = np.pad(weights, radius, constant_values=np.nan)
    (row, column), tile = pixel, 2 * radius + 1
    spans = [range(at - radius, at + radius + 1) for at in pixel]
    return padded[row : row + tile, column : column + tile], [
        [f"{name} {i}" if 0 <= i < size else "outside" for i in along]
        for name, along, size in zip(("row", "column"), spans, weights.shape, strict=True)
    ]
