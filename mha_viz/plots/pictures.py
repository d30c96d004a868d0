"""Pictures made of pixels side by side, and where several heads look in them."""

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.cells import colour_bar, missing_background
from mha_viz.plots.frame import annotation, as_numbers, build_figure, framed
from mha_viz.plots.numbers import Cells, short_numbers
from mha_viz.web import theme
from mha_viz.web.labels import clean, hover_text, plotly_text

_HEAD = 26  # pixels for a picture's title
MAX_SIDE = 64
Place = tuple[int, int]
_ON_PAPER = dict(xref="paper", yref="paper")
_ABOVE = dict(xanchor="left", yanchor="bottom")
_BARE = dict(
    showgrid=False,
    zeroline=False,
    ticks="",
    showticklabels=False,
    fixedrange=True,
    automargin=False,
    constrain="domain",
)
_BARE_X, _BARE_Y = _BARE | dict(constraintoward="left"), _BARE | dict(constraintoward="top")


def pictures(
    panels: Mapping[str, Any],
    *,
    zero: Mapping[str, SupportsFloat] | None = None,
    marked: Place | None = None,
    columns: int = 4,
    side: int = 230,
    dark: bool = False,
) -> go.Figure:
    """Draw pictures of one size beside each other, each pixel as large as there is room.

    `panels` are (row, column) numbers in grey or (row, column, 3) colours by title; what lies
    outside [0, 1] is drawn as the end that it passed, hover shows the number. `zero` is added
    before drawing, by title: 0.5 shows signed numbers around a middle grey. The pixel `marked` is
    framed in all of them. `columns` pictures stand in a line, `side` pixels high.
    """
    arrays = {title: _as_picture(values, title) for title, values in panels.items()}
    if not arrays or len({values.shape[:2] for values in arrays.values()}) > 1:
        raise ShapeError("pictures beside each other must be of one size, and there must be one.")
    rows, wide = next(iter(arrays.values())).shape[:2]
    lines, across = -(-len(arrays) // columns), min(columns, len(arrays))
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    shapes: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    height = lines * (side + _HEAD) + 4
    for i, (title, values) in enumerate(arrays.items()):
        n, (line, column) = "" if i == 0 else str(i + 1), divmod(i, columns)
        top = 1 - (line * (side + _HEAD) + _HEAD) / height
        left = (column + 0.02) / across
        place = dict(xaxis=f"x{n}", yaxis=f"y{n}")
        pixels = _bytes(values + float((zero or {}).get(title, 0.0)))
        traces.append(dict(type="image", z=pixels, hoverinfo="skip") | place)
        traces.append(_hover_points(values, title) | place)
        x_span = dict(domain=[left, (column + 0.98) / across], range=[-0.5, wide - 0.5])
        y_span = dict(domain=[top - side / height, top], range=[rows - 0.5, -0.5])
        axes[f"xaxis{n}"] = _BARE_X | x_span | dict(anchor=f"y{n}")
        axes[f"yaxis{n}"] = _BARE_Y | y_span | dict(anchor=f"x{n}", scaleanchor=f"x{n}")
        text = plotly_text(clean(title, 60))
        texts.append(annotation(text, left, top, theme.ink(dark), 13, **_ON_PAPER, **_ABOVE))
        if marked is not None:
            shapes.append(_frame(marked, dark) | dict(xref=f"x{n}", yref=f"y{n}"))
    layout = dict(shapes=shapes, annotations=texts, height=height, margin=dict(l=2, r=2, t=0, b=0))
    layout |= dict(axes, showlegend=False, hovermode="closest", dragmode="zoom")
    return build_figure(traces, dark, layout)


def picture_cells(
    values: Any,
    title: str,
    *,
    zero: SupportsFloat = 0.0,
    marked: Place | None = None,
    side: int = 230,
) -> Cells:
    """Make one of the panels of `pictures` for the browser, its longer side `side` pixels."""
    numbers = _as_picture(values, title)
    rows, columns = numbers.shape[:2]
    shift, cell = float(zero), side / max(rows, columns)
    flat: list[Any] = short_numbers(numbers)
    if numbers.ndim == 3:
        flat = [None if None in place else place for place in zip(*[iter(flat)] * 3, strict=True)]
    return Cells(
        clean(title, 60),
        ([f"row {i}" for i in range(rows)], [f"column {i}" for i in range(columns)]),
        flat,
        -shift,
        1.0 - shift,
        "colours" if numbers.ndim == 3 else "grey",
        (cell, cell),
        marked=() if marked is None else (marked,),
    )


def tile_cells(
    pattern: Float[np.ndarray | Tensor, "head row column"],
    pixel: Place,
    notes: Sequence[str],
    *,
    radius: int,
    cell: float = 20.0,
) -> list[Cells]:
    """Make the tiles of `pixel_tiles` for the browser, in the order of the heads."""
    tiles = []
    look: dict[str, Any] = dict(low=0.0, high=1.0, scale="sqrt", cell=(cell, cell))
    heads = zip(as_numbers(pattern, 3, "pattern"), notes, strict=True)
    for head, (weights, title) in enumerate(heads):
        window, names = _window(weights, pixel, radius)
        marks: dict[str, Any] = dict(marked=((radius, radius),), note=f"weight of head {head}")
        tiles.append(Cells(clean(title, 24), names, short_numbers(window), **look, **marks))
    return tiles


def pixel_tiles(
    pattern: Float[np.ndarray | Tensor, "head row column"],
    pixel: Place,
    offsets: Sequence[Place],
    notes: Sequence[str],
    *,
    radius: int,
    side: int = 420,
    dark: bool = False,
) -> go.Figure:
    """Draw a tile for each head: its weights around one pixel, tiles in the order of the offsets.

    `pattern` holds weights (head, row, column), `offsets` the (row, column) of each head's tile
    counted from the middle one, `notes` what is written above each. A tile reaches `radius` pixels
    around its middle, `pixel`; those outside the picture are grey. All tiles together are `side`
    pixels high.
    """
    weights = as_numbers(pattern, 3, "pattern")
    if not len(weights) == len(offsets) == len(notes):
        raise ShapeError(f"{len(weights)} heads need as many offsets and notes.")
    tile, gap = 2 * radius + 1, 2
    steps = np.array(offsets) - np.min(offsets, axis=0)  # of a tile, from the first one
    rows, columns = ((tile + gap) * (np.max(steps, axis=0) + 1)).tolist()
    cells = np.full((rows, columns), np.nan)
    hovers = np.full((rows, columns), "", dtype=object)
    shapes: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for head, (row, column) in enumerate(steps.tolist()):
        y, x = (tile + gap) * row + gap, (tile + gap) * column
        window, names = _window(weights[head], pixel, radius)
        cells[y : y + tile, x : x + tile] = window
        hovers[y : y + tile, x : x + tile] = _tile_hovers(head, window, names)
        shapes.append(missing_background(tile, tile, dark, (y, x)))
        shapes.append(_frame((y + radius, x + radius), dark))
        text = plotly_text(clean(notes[head], 24))
        texts.append(annotation(text, x - 0.5, y - 0.4, theme.muted(dark), 11, **_ABOVE))
    drawn = dict(type="heatmap", z=cells, zmin=0, zmax=1, xgap=1, ygap=1, hoverongaps=False)
    drawn |= dict(hoverinfo="text", hovertext=hovers.tolist())
    marks: dict[SupportsFloat, str] = {weight: f"{weight:g}" for weight in (0, 0.25, 0.5, 1)}
    drawn |= dict(colorscale=theme.colorscale("sqrt", dark), colorbar=colour_bar(dark, marks))
    layout = dict(
        height=side + 40,
        margin=dict(l=4, r=4, t=34, b=4),
        shapes=shapes,
        annotations=texts,
        xaxis=_BARE_X | dict(range=[-0.6, columns - gap]),
        yaxis=_BARE_Y | dict(range=[rows - 0.4, 0], scaleanchor="x"),
    )
    return build_figure([drawn], dark, layout)


def _tile_hovers(head: int, window: NDArray[np.float64], names: list[list[str]]) -> list[list[str]]:
    return [
        [
            f"head {head} → {row}, {column}<br>weight <b>{theme.format_weight(weight)}</b>"
            for column, weight in zip(names[1], weights, strict=True)
        ]
        for row, weights in zip(names[0], window, strict=True)
    ]


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


def _bytes(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return (row, column, 3), 0 to 255; what is not finite is black."""
    colours = values if values.ndim == 3 else np.repeat(values[:, :, None], 3, axis=2)
    return np.round(255 * np.clip(np.nan_to_num(colours), 0.0, 1.0)).astype(np.uint8)


def _hover_points(values: NDArray[np.float64], title: str) -> dict[str, Any]:
    """Return invisible points over the pixels, whose hover text has the numbers."""
    places = np.argwhere(np.ones(values.shape[:2], dtype=bool)).astype(np.int16)
    numbers = values.reshape(len(places), -1).tolist()
    texts = [", ".join(theme.format_number(n) for n in line) for line in numbers]
    return dict(
        x=places[:, 1],
        y=places[:, 0],
        mode="markers",
        hovertext=texts,
        hovertemplate=f"{hover_text(clean(title, 60))} · row %{{y}}, column %{{x}}<br>"
        "<b>%{hovertext}</b><extra></extra>",
        marker=dict(opacity=0, size=8, maxdisplayed=1),
    )


def _frame(place: Place, dark: bool) -> dict[str, Any]:
    row, column = place
    return framed((column - 0.5, row - 0.5), (column + 0.5, row + 0.5), 2, dark)


def _window(
    weights: NDArray[np.float64], pixel: Place, radius: int
) -> tuple[NDArray[np.float64], list[list[str]]]:
    """Return the weights around a pixel, NaN outside, and the names of rows and columns."""
    padded = np.pad(weights, radius, constant_values=np.nan)
    (row, column), tile = pixel, 2 * radius + 1
    places = [range(at - radius, at + radius + 1) for at in pixel]
    return padded[row : row + tile, column : column + tile], [
        [f"{name} {i}" if 0 <= i < size else "outside" for i in along]
        for name, along, size in zip(("row", "column"), places, weights.shape, strict=True)
    ]
