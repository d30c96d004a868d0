"""Pictures made of pixels side by side, and where several heads look in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.cells import colour_bar, missing_ground
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
    outside [0, 1] is drawn as the end that it passed, hover tells the number. `zero` is added
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
        traces.append(_points(values, title) | place)
        x_span = dict(domain=[left, (column + 0.98) / across], range=[-0.5, wide - 0.5])
        y_span = dict(domain=[top - side / height, top], range=[rows - 0.5, -0.5])
        axes[f"xaxis{n}"] = dict(_BARE, **x_span, anchor=f"y{n}", constraintoward="left")
        upright = dict(scaleanchor=f"x{n}", constraintoward="top")
        axes[f"yaxis{n}"] = dict(_BARE, **y_span, anchor=f"x{n}", **upright)
        text = plotly_text(clean(title, 60))
        texts.append(annotation(text, left, top, theme.ink(dark), 13, **_ON_PAPER, **_ABOVE))
        if marked is not None:
            shapes.append(_frame(marked, dark) | dict(xref=f"x{n}", yref=f"y{n}"))
    layout = dict(
        **axes,
        shapes=shapes,
        annotations=texts,
        height=height,
        margin=dict(l=2, r=2, t=0, b=0),
        showlegend=False,
        hovermode="closest",
        dragmode="zoom",
    )
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
    for head, (weights, note) in enumerate(
        zip(as_numbers(pattern, 3, "pattern"), notes, strict=True)
    ):
        window, names = _window(weights, pixel, radius)
        tiles.append(
            Cells(
                clean(note, 24),
                names,
                short_numbers(window),
                0.0,
                1.0,
                "sqrt",
                (cell, cell),
                marked=((radius, radius),),
                note=f"weight of head {head}",
            )
        )
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
    low = min(row for row, _ in offsets), min(column for _, column in offsets)
    high = max(row for row, _ in offsets), max(column for _, column in offsets)
    rows, wide = ((tile + gap) * (b - a + 1) for a, b in zip(low, high, strict=True))
    cells = np.full((rows, wide), np.nan)
    hover = np.full((rows, wide), "", dtype=object)
    shapes: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for head, (row, column) in enumerate(offsets):
        y, x = (tile + gap) * (row - low[0]) + gap, (tile + gap) * (column - low[1])
        window, names = _window(weights[head], pixel, radius)
        cells[y : y + tile, x : x + tile] = window
        hover[y : y + tile, x : x + tile] = [
            [
                f"head {head} → {of}, {to}<br>weight <b>{theme.format_weight(weight)}</b>"
                for to, weight in zip(names[1], line, strict=True)
            ]
            for of, line in zip(names[0], window, strict=True)
        ]
        ends = dict(x0=x - 0.5, x1=x + tile - 0.5, y0=y - 0.5, y1=y + tile - 0.5)
        ground = missing_ground(tile, tile, dark) | ends
        shapes += [ground, _frame((y + radius, x + radius), dark)]
        text = plotly_text(clean(notes[head], 24))
        texts.append(annotation(text, x - 0.5, y - 0.4, theme.muted(dark), 11, **_ABOVE))
    weights_shown = dict(
        type="heatmap",
        z=cells,
        zmin=0,
        zmax=1,
        hoverinfo="text",
        hovertext=hover.tolist(),
        hoverongaps=False,
        xgap=1,
        ygap=1,
        colorscale=theme.colorscale("sqrt", dark),
        colorbar=colour_bar(dark, {weight: f"{weight:g}" for weight in (0, 0.25, 0.5, 1)}),
    )
    layout = dict(
        height=side + 40,
        margin=dict(l=4, r=4, t=34, b=4),
        shapes=shapes,
        annotations=texts,
        xaxis=_BARE | dict(range=[-0.6, wide - gap], constraintoward="left"),
        yaxis=_BARE | dict(range=[rows - 0.4, 0], constraintoward="top", scaleanchor="x"),
    )
    return build_figure([weights_shown], dark, layout)


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


def _points(values: NDArray[np.float64], title: str) -> dict[str, Any]:
    """Return invisible points over the pixels, which tell their numbers."""
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
    tile = 2 * radius + 1
    cells = np.full((tile, tile), np.nan)
    places = [[at + i - radius for i in range(tile)] for at in pixel]
    for i, row in enumerate(places[0]):
        for j, column in enumerate(places[1]):
            if 0 <= row < weights.shape[0] and 0 <= column < weights.shape[1]:
                cells[i, j] = weights[row, column]
    return cells, [
        [f"{name} {i}" if 0 <= i < size else "outside" for i in along]
        for name, along, size in zip(("row", "column"), places, weights.shape, strict=True)
    ]
