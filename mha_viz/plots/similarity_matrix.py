"""All heads against all heads, in an order that shows which are alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Num
from torch import Tensor

from mha_viz.core.compare.twins import Clustering
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.frame import Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean_all, hover_text, layer_names

_TREE = 72  # height of the dendrogram, in pixels
_FRAMED = 40  # heads up to which the chosen one's cells are framed
_LISTED = 6  # heads without a value that the note names
_DOTS = "With a dot: measured. Without: estimated."


@dataclass(frozen=True)
class HeadPairs:
    """A number for each pair of heads, and the order in which heads are drawn.

    `chance` is the largest distance of heads that are more alike than chance. `measured` tells
    measured numbers from estimates. `layer_numbers` are the model's own, if not 0, 1, 2 ...
    """

    matrix: Num[np.ndarray | Tensor, "head2 head2"]
    names: Sequence[str]
    clustering: Clustering
    n_heads: int
    unit: str = ""
    chance: float | None = None
    measured: Bool[np.ndarray, "head2 head2"] | None = None
    layer_numbers: Sequence[int] = ()


@dataclass(frozen=True)
class Marks:
    """Marks in a matrix of heads: frames of clusters, the (layer, head) chosen, a pair (i, j)."""

    clusters: int | None = None
    selected: tuple[int, int] | None = None
    pair: tuple[int, int] | None = None


_NO_MARKS = Marks()


def similarity_matrix(
    pairs: HeadPairs,
    *,
    title: str = "",
    diverging: bool = False,
    limits: frame.Limits | None = None,
    marks: Marks = _NO_MARKS,
    side: int = 520,
    dark: bool = False,
) -> go.Figure:
    """Draw all heads by all heads as coloured cells, in the order of their clustering.

    Ordered by cluster, the tree of merges stands above the columns, with a dashed line at `chance`,
    and a square frames each of at most `clusters`; ordered by layer, thin lines part the layers.
    Cells without a number (NaN) are grey and hatched, and their heads are named. Hover shows both
    heads and the exact value. Up to 21,000 cells there is an invisible point in each, so that a
    click can be read: its customdata is [i, j], the row's and the column's head as they are
    numbered in the matrix, and so is the pair to mark. Measured numbers carry a dot, and hover
    calls the others estimates.
    """
    drawn = _Drawn(pairs)
    size, labels, clustering = len(drawn.order), drawn.labels, pairs.clustering
    cell, wide = (min(pixels / size, 64.0) for pixels in (side, min(side, cells.PHONE_WIDTH)))
    by_layer = clustering.by == "layer"
    tree = _TREE if not by_layer and len(clustering.heads) > 1 else 0
    colours = cells.scale_colours(drawn.values, diverging, limits, dark)
    traces = _cells(drawn, colours, cell, pairs.unit, dark)
    if by_layer:
        traces.append(_layer_lines(size, pairs.n_heads, dark))
    elif marks.clusters is not None:
        blocks = _blocks(clustering, marks.clusters)
        traces.append(cells.frame_trace(blocks, 1.5, theme.ink(dark)))
    if tree:
        traces.append(_dendrogram(clustering, dark))
        if pairs.chance is not None:
            traces.append(_chance_line(pairs.chance, size, dark))
    if marks.selected is not None:
        traces.append(_chosen(drawn.row_of(marks.selected, pairs.n_heads), size, dark))
    if marks.pair is not None:
        row, column = (drawn.row_of((0, i), size) for i in marks.pair)
        traces.append(_chosen_cell(row, column, cell, dark))
    inner = cell * size + tree
    layers = layer_names(size // pairs.n_heads, pairs.layer_numbers)
    ticks = _layer_ticks(layers, pairs.n_heads, wide) if by_layer else None
    domain = 0.0, 1.0 - tree / inner
    axes = cells.cell_axes(labels, labels, cell, wide, marks=ticks, domain=domain)
    above = dict(domain=(1.0 - max(tree - 6, 1) / inner, 1.0), anchor="x", visible=False)
    layout = dict(
        dragmode="zoom",
        hoverdistance=-1,
        shapes=[cells.missing_background(size, size, dark)],
        **frame.merged(axes, cells.SQUARE),
        yaxis3=dict(above, rangemode="tozero", fixedrange=True),
    )
    notes = _notes(clustering, pairs.names, drawn.values) + [_DOTS] * (drawn.dotted is not None)
    names = 22 if by_layer else 14 + 6.3 * cells.longest_label(dict(ticktext=labels))
    title = frame.with_unit(title, pairs.unit)
    figure = cells.headed_cells(traces, dark, title, notes, inner, layout, names)
    down = ticks or cells.fitting_ticks(labels, cell)
    return cells.with_height_rule(figure, cell, down, (size, size))


class _Drawn:
    """The numbers and labels of pairs of heads, checked, and in the order of the picture."""

    def __init__(self, pairs: HeadPairs) -> None:
        values = frame.as_numbers(pairs.matrix, 2, "matrix (head2, head2)")
        size, self.order = len(values), list(pairs.clustering.order)
        if values.shape != (size, size) or len(self.order) != size:
            raise ShapeError(
                f"matrix must be square and its clustering of as many heads: got {values.shape} "
                f"and {len(self.order)}."
            )
        if pairs.n_heads < 1 or size % pairs.n_heads:
            raise ArgumentError(f"{size} heads do not fill layers of {pairs.n_heads}.")
        names, ordered = clean_all(pairs.names, size, "heads"), np.ix_(self.order, self.order)
        self.values, self.labels = values[ordered], [names[i] for i in self.order]
        self.is_finite, measured = np.isfinite(self.values), pairs.measured
        self.dotted = None if measured is None else measured[ordered] & self.is_finite

    def row_of(self, selected: tuple[int, int], n_heads: int) -> int:
        """Return the row of a head (layer, head)."""
        layer, head = selected
        size = len(self.order)
        if not (0 <= head < n_heads and 0 <= layer * n_heads + head < size):
            raise ArgumentError(f"There is no head {selected} among {size} heads.")
        return self.order.index(layer * n_heads + head)


def _notes(clustering: Clustering, names: Sequence[str], values: Numbers) -> list[str]:
    if not clustering.undefined:
        return ["Hatched: not defined."] if np.isnan(values).any() else []
    shown = ", ".join(names[i] for i in clustering.undefined[:_LISTED])
    more = len(clustering.undefined) - _LISTED
    last = " and last" if clustering.by == "cluster" else ""
    remainder = f" and {more} more" if more > 0 else ""
    return [f"Not defined for {shown}{remainder}: hatched{last}."]


def _cells(drawn: _Drawn, colours: Part, cell: float, unit: str, dark: bool) -> list[Part]:
    values, has_value, dotted = drawn.values, drawn.is_finite, drawn.dotted
    clickable = values.size <= cells.MAX_CLICKABLE
    pair, after = "%{y} and %{x}", f"</b> {hover_text(unit)}" if unit else "</b>"
    after += "" if dotted is None else "<br>%{text}"
    hover = "" if clickable else f"{pair}<br><b>{theme.hover('z')}{after}<extra></extra>"
    traces = [cells.heatmap_cells(values, cell, colours, hover), *cells.hatching(~has_value, dark)]
    traces.append(dict(cells.label_axes_trace(), mode="markers"))
    points: list[Part] = []
    if clickable:
        heads = np.stack(np.meshgrid(drawn.order, drawn.order, indexing="ij"), axis=-1)
        points = cells.clickable(values, heads, pair, f"<b>{theme.hover('marker.color')}{after}")
    if dotted is not None:
        kinds = np.where(dotted, "measured", "estimate")
        rows, columns = np.nonzero(dotted)
        edge, size = dict(width=1, color=theme.ink(dark)), min(max(cell / 3, 3.0), 8.0)
        look = dict(size=size, opacity=1, color=theme.paper(dark), line=edge)
        traces.append(frame.plain_markers(columns, rows, look))
        traces[0] |= dict(text=kinds)
        if points and has_value.any():
            points[0] |= dict(text=kinds[has_value].tolist())
    return traces + points


def _layer_lines(size: int, n_heads: int, dark: bool) -> Part:
    cuts = [v for i in range(n_heads, size, n_heads) for v in (i - 0.5, i - 0.5, None)]
    ends = [-0.5, size - 0.5, None] * (len(cuts) // 3)
    return frame.plain_lines(cuts + ends, ends + cuts, 1, theme.ink(dark), opacity=0.55)


def _chosen(position: int, size: int, dark: bool) -> Part:
    """Return frames of a row and a column, or arrows at the four ends where cells are small."""
    low, high, accent = -0.5, size - 0.5, theme.accent(dark)
    if size <= _FRAMED:
        row = (low, position - 0.5, high, position + 0.5)
        return cells.frame_trace([row, (row[1], row[0], row[3], row[2])], 2, accent)
    symbols = [f"triangle-{side}" for side in ("right", "left", "down", "up")]
    edge = dict(width=1, color=theme.paper(dark))
    arrows = dict(symbol=symbols, size=11, color=accent, opacity=1, line=edge)
    x, y = [low, high, position, position], [position, position, low, high]
    return frame.plain_markers(x, y, arrows, cliponaxis=False)


def _chosen_cell(row: int, column: int, cell: float, dark: bool) -> Part:
    """Return a ring that is larger than the cell; its edge is seen on dark and on pale cells."""
    ring = dict(symbol="square-open", opacity=1, size=max(cell, 9.0) + 5, line=dict(width=[5, 3]))
    ring |= dict(color=[theme.paper(dark), theme.accent(dark)])
    return frame.plain_markers([column, column], [row, row], ring, cliponaxis=False)


def _chance_line(height: float, size: int, dark: bool) -> Part:
    x, y = np.linspace(-0.5, size - 0.5, 2 * size + 1), np.full(2 * size + 1, height)
    line = dict(width=1.5, dash="dash", color=theme.accent(dark))
    return _above_columns(x, y, line, "as alike as by chance above")


def _above_columns(x: Any, y: Any, line: Part, text: str) -> Part:
    hover = f"{text} <b>{theme.hover('y')}</b><extra></extra>"
    return dict(x=x, y=y, mode="lines", xaxis="x", yaxis="y3", line=line, hovertemplate=hover)


def _layer_ticks(names: Sequence[str], n_heads: int, cell: float) -> Part:
    """Return a label in the middle of each layer, as many as fit."""
    step = max(1, -int(-26 // max(n_heads * cell, 1.0)))
    layers = list(range(0, len(names), step))
    middles = [i * n_heads + (n_heads - 1) / 2 for i in layers]
    return dict(tickvals=middles, ticktext=[names[i] for i in layers])


def _blocks(clustering: Clustering, k: int) -> list[tuple[float, float, float, float]]:
    """Return the square of each cluster on the diagonal; in its order a cluster is one stretch."""
    along = clustering.labels(k)[list(clustering.order)]
    along = along[along >= 0]
    cuts = np.flatnonzero(np.diff(along, prepend=-1, append=-1)).tolist()
    return [(a - 0.5, a - 0.5, b - 0.5, b - 0.5) for a, b in pairwise(cuts)]


def _dendrogram(clustering: Clustering, dark: bool) -> Part:
    """Return the merges as brackets above the columns, as high as the distance merged at."""
    position = dict(zip(clustering.leaves(), np.arange(len(clustering.heads)) * 1.0, strict=True))
    height = dict.fromkeys(position, 0.0)
    x: list[float | None] = []
    y: list[float | None] = []
    for i, (first, second, distance, _) in enumerate(clustering.linkage.tolist()):
        a, b, new = int(first), int(second), len(clustering.heads) + i
        x += [position[a], position[a], position[b], position[b], None]
        y += [height[a], distance, distance, height[b], None]
        position[new], height[new] = (position[a] + position[b]) / 2, distance
    across, up = (np.array(coordinates, dtype=np.float32) for coordinates in (x, y))
    line = dict(width=1, color=theme.muted(dark))
    return _above_columns(across, up, line, "joined at a distance of")
