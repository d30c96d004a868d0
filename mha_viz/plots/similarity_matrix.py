"""All heads against all heads, in an order that shows which are alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.compare.twins import Clustering
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells
from mha_viz.plots.frame import Limits, as_numbers, headed_figure, merged, with_unit
from mha_viz.web import theme
from mha_viz.web.labels import clean_all, hover_text

_TREE = 72  # height of the dendrogram, in pixels
_FRAMED = 40  # heads up to which the chosen one's cells are framed
_LISTED = 6  # heads without a value that the note names
_DOTS = "With a dot: measured. Without: estimated."


def similarity_matrix(
    matrix: Num[np.ndarray | Tensor, "head2 head2"],
    names: Sequence[str],
    clustering: Clustering,
    *,
    n_heads: int,
    title: str = "",
    unit: str = "",
    diverging: bool = False,
    limits: Limits | None = None,
    clusters: int | None = None,
    selected: tuple[int, int] | None = None,
    pair: tuple[int, int] | None = None,
    measured: Bool[np.ndarray, "head2 head2"] | None = None,
    chance: float | None = None,
    side: int = 520,
    dark: bool = False,
) -> go.Figure:
    """Draw all heads by all heads as coloured cells, in the order of `clustering`.

    Ordered by cluster, the tree of merges stands above the columns and a square frames each of at
    most `clusters`; ordered by layer, thin lines part the layers. Cells without a number (NaN) are
    grey and hatched, and their heads are named. Hover tells both heads and the exact value. Up to
    21,000 cells there is an invisible point in each, so that a click can be read: its customdata is
    [i, j], the row's and the column's head as they are numbered in `matrix`, and so is `pair`, the
    cell to mark. `chance`, a dashed line across the tree, is the largest distance of heads that are
    more alike than chance. `measured` numbers carry a dot, and hover calls the others estimates.
    """
    values, labels = _checked(matrix, names, clustering, n_heads)
    order, size = list(clustering.order), len(values)
    values, labels = values[np.ix_(order, order)], [labels[i] for i in order]
    dots = None if measured is None else measured[np.ix_(order, order)] & np.isfinite(values)
    cell, wide = (min(pixels / size, 64.0) for pixels in (side, min(side, cells.PHONE)))
    by_layer = clustering.by == "layer"
    tree = _TREE if not by_layer and len(clustering.known) > 1 else 0
    colours = cells.scale_colours(values, diverging, limits, dark)
    traces = _cells(values, order, colours, cell, unit, dots, dark)
    if by_layer:
        traces.append(_layer_lines(size, n_heads, dark))
    elif clusters is not None:
        edges = dict(line=dict(width=1.5, color=theme.ink(dark)))
        traces.append(cells.frame_trace(_blocks(clustering, clusters)) | edges)
    if tree:
        traces.append(_dendrogram(clustering, unit, dark))
        if chance is not None:
            traces.append(_chance_line(chance, size, dark))
    if selected is not None:
        place = order.index(_index(selected, n_heads, size))
        traces.append(_chosen(place, size, dark))
    if pair is not None:
        row, column = (order.index(_index((0, i), size, size)) for i in pair)
        traces.append(_chosen_cell(row, column, cell, dark))
    below = 22 if by_layer else 12 + 7 * max(map(len, labels))
    inner = cell * size + tree
    marks = _layer_marks(size, n_heads, wide) if by_layer else None
    layout = dict(
        hoverdistance=-1,
        shapes=[cells.missing_ground(size, size, dark)],
        **merged(
            cells.cell_axes(
                labels, labels, cell, wide, marks=marks, domain=(0.0, 1.0 - tree / inner)
            ),
            cells.SQUARE,
        ),
        yaxis3=dict(
            domain=(1.0 - max(tree - 6, 1) / inner, 1.0),
            anchor="x",
            visible=False,
            rangemode="tozero",
            fixedrange=True,
        ),
    )
    figure = headed_figure(
        traces,
        dark,
        with_unit(title, unit),
        _notes(clustering, names, values) + [_DOTS] * (dots is not None),
        inner + below + 8,
        layout,
        above=cells.BAR,
        drag="zoom",
    )
    return cells.with_height_rule(
        figure, cell, marks or cells.fitting_ticks(labels, cell), (size, size)
    )


def _checked(
    matrix: Any, names: Sequence[str], clustering: Clustering, n_heads: int
) -> tuple[NDArray[np.float64], list[str]]:
    values = as_numbers(matrix, 2, "matrix (head2, head2)")
    size = len(values)
    if values.shape != (size, size) or len(clustering.order) != size:
        raise ShapeError(
            f"matrix must be square and its clustering of as many heads: got {values.shape} and "
            f"{len(clustering.order)}."
        )
    if n_heads < 1 or size % n_heads:
        raise ArgumentError(f"{size} heads do not fill layers of {n_heads}.")
    return values, clean_all(names, size, "heads")


def _index(selected: tuple[int, int], n_heads: int, size: int) -> int:
    layer, head = selected
    if not (0 <= head < n_heads and 0 <= layer * n_heads + head < size):
        raise ArgumentError(f"There is no head {selected} among {size} heads.")
    return layer * n_heads + head


def _notes(clustering: Clustering, names: Sequence[str], values: NDArray[np.float64]) -> list[str]:
    if not clustering.undefined:
        return ["Hatched: not defined."] if np.isnan(values).any() else []
    shown = ", ".join(names[i] for i in clustering.undefined[:_LISTED])
    more = len(clustering.undefined) - _LISTED
    last = " and last" if clustering.by == "cluster" else ""
    return [
        f"Not defined for {shown}" + (f" and {more} more" if more > 0 else "") + f": hatched{last}."
    ]


def _cells(
    values: NDArray[np.float64],
    order: list[int],
    colours: dict[str, Any],
    cell: float,
    unit: str,
    dots: NDArray[np.bool_] | None,
    dark: bool,
) -> list[dict[str, Any]]:
    size = len(values)
    click = size * size <= cells.MAX_CLICKABLE
    pair, after = "%{y} and %{x}", f"</b> {hover_text(unit)}" if unit else "</b>"
    after += "" if dots is None else "<br>%{text}"
    kinds = np.where(False if dots is None else dots, "measured", "estimate")
    exact = f"{pair}<br><b>%{{z:.4~g}}{after}<extra></extra>"
    hover = dict(hoverinfo="skip") if click else dict(hovertemplate=exact, hoverongaps=False)
    colours = colours | dict(colorbar=cells.colour_bar(dark))
    traces = [cells.heatmap_cells(values, cell, colours, hover)]
    if np.isnan(values).any():
        traces.append(cells.hatching(np.isnan(values), dark))
    traces.append(dict(cells.on_label_axes(), mode="markers"))
    if dots is not None:
        traces.append(_dots(dots, cell, dark))
        traces[0] |= dict(text=kinds)
    if click:
        heads = np.stack(np.meshgrid(order, order, indexing="ij"), axis=-1)
        points = cells.clickable(values, heads, pair, "<b>%{marker.color:.4~g}" + after)
        if dots is not None and np.isfinite(values).any():
            points[0] |= dict(text=kinds[np.isfinite(values)].tolist())
        traces += points
    return traces


def _dots(where: NDArray[np.bool_], cell: float, dark: bool) -> dict[str, Any]:
    rows, columns = np.nonzero(where)
    look = dict(size=min(max(cell / 3, 3.0), 8.0), opacity=1, color=theme.paper(dark))
    edge = dict(line=dict(width=1, color=theme.ink(dark)))
    return dict(x=columns, y=rows, mode="markers", hoverinfo="skip", marker=look | edge)


def _layer_lines(size: int, n_heads: int, dark: bool) -> dict[str, Any]:
    cuts = [i - 0.5 for i in range(n_heads, size, n_heads)]
    ends = [-0.5, size - 0.5, None]
    return dict(
        x=[v for cut in cuts for v in ([cut, cut, None])] + [v for _ in cuts for v in ends],
        y=[v for _ in cuts for v in ends] + [v for cut in cuts for v in ([cut, cut, None])],
        mode="lines",
        hoverinfo="skip",
        opacity=0.55,
        line=dict(width=1, color=theme.ink(dark)),
    )


def _chosen(place: int, size: int, dark: bool) -> dict[str, Any]:
    """Return frames of a row and a column, or arrows at the four ends where cells are small."""
    if size <= _FRAMED:
        frames = [
            (-0.5, place - 0.5, size - 0.5, place + 0.5),
            (place - 0.5, -0.5, place + 0.5, size - 0.5),
        ]
        return cells.frame_trace(frames) | dict(line=dict(width=2, color=theme.accent(dark)))
    low, high = -0.5, size - 0.5
    symbols = ["triangle-right", "triangle-left", "triangle-down", "triangle-up"]
    return dict(
        x=[low, high, place, place],
        y=[place, place, low, high],
        mode="markers",
        hoverinfo="skip",
        cliponaxis=False,
        marker=dict(
            symbol=symbols,
            size=11,
            color=theme.accent(dark),
            opacity=1,
            line=dict(width=1, color=theme.paper(dark)),
        ),
    )


def _chosen_cell(row: int, column: int, cell: float, dark: bool) -> dict[str, Any]:
    """Return a ring that is larger than the cell; its edge is seen on dark and on pale cells."""
    size = max(cell, 9.0) + 5
    ring = dict(symbol="square-open", opacity=1)
    colours = ((theme.paper(dark), 5), (theme.accent(dark), 3))
    return dict(
        x=[column, column],
        y=[row, row],
        mode="markers",
        hoverinfo="skip",
        cliponaxis=False,
        marker=dict(
            **ring,
            size=size,
            color=[colour for colour, _ in colours],
            line=dict(width=[width for _, width in colours]),
        ),
    )


def _chance_line(height: float, size: int, dark: bool) -> dict[str, Any]:
    return dict(
        x=np.linspace(-0.5, size - 0.5, 2 * size + 1),
        y=np.full(2 * size + 1, height),
        mode="lines",
        xaxis="x",
        yaxis="y3",
        line=dict(width=1.5, dash="dash", color=theme.accent(dark)),
        hovertemplate="as alike as by chance above <b>%{y:.4~g}</b><extra></extra>",
    )


def _layer_marks(size: int, n_heads: int, cell: float) -> dict[str, Any]:
    """Return a label in the middle of each layer, as many as fit."""
    step = max(1, -int(-26 // max(n_heads * cell, 1.0)))
    layers = list(range(0, size // n_heads, step))
    return dict(
        tickvals=[i * n_heads + (n_heads - 1) / 2 for i in layers],
        ticktext=[f"L{i}" for i in layers],
    )


def _blocks(clustering: Clustering, k: int) -> list[tuple[float, float, float, float]]:
    """Return the square of each cluster on the diagonal; in its order a cluster is one stretch."""
    along = clustering.labels(k)[list(clustering.order)]
    along = along[along >= 0]
    cuts = np.flatnonzero(np.diff(along, prepend=-1, append=-1)).tolist()
    return [(a - 0.5, a - 0.5, b - 0.5, b - 0.5) for a, b in pairwise(cuts)]


def _dendrogram(clustering: Clustering, unit: str, dark: bool) -> dict[str, Any]:
    """Return the merges as brackets above the columns, as high as the distance merged at."""
    place = dict(zip(clustering.leaves(), np.arange(len(clustering.known)) * 1.0, strict=True))
    height = dict.fromkeys(place, 0.0)
    x: list[float | None] = []
    y: list[float | None] = []
    for i, (left, right, distance, _) in enumerate(clustering.linkage.tolist()):
        a, b, new = int(left), int(right), len(clustering.known) + i
        x += [place[a], place[a], place[b], place[b], None]
        y += [height[a], distance, distance, height[b], None]
        place[new], height[new] = (place[a] + place[b]) / 2, distance
    return dict(
        x=np.array(x, dtype=np.float32),
        y=np.array(y, dtype=np.float32),
        mode="lines",
        xaxis="x",
        yaxis="y3",
        line=dict(width=1, color=theme.muted(dark)),
        hovertemplate="joined at a distance of <b>%{y:.4~g}</b><extra></extra>",
    )
