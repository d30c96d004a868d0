"""Weights of heads as plotly heatmaps: one with its tokens, or a few small ones; pooled cells."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.plots import cells, frame
from mha_viz.plots.frame import Part
from mha_viz.web import theme
from mha_viz.web.labels import head_name, plotly_text
from mha_viz.web.standalone import figure_html

S = TypeVar("S", bound=np.generic)
MAX_ROWS = 512  # rows and columns of a chart; more would take its browser seconds and tens of MB
_TITLE, _BAR = 32, 40  # heights above the labels, in pixels
_LETTERS = 16  # of a label beside the axis; hover shows all of it
# Names of the columns stand above the cells, slanted.
_SQUARE = cells.SQUARE | dict(xaxis2=dict(side="top", tickangle=-60))
MAX_TILES, MAX_TOKENS = 32, 64
_ACROSS = 4  # tiles side by side: a phone has room for no more
_TILE_HEIGHT = 150  # in pixels
_LABEL = 17  # height of a tile's name, in pixels
_GAP = 0.08  # between tiles, as a share of one


@dataclass(frozen=True, eq=False)
class Pooled:
    """The number that stands for each cell: the one furthest from 0 among `side` x `side`."""

    side: int  # 1 where nothing had to be pooled
    # the place of that number in the flattened matrix, (row, column)
    at: Int[np.ndarray, "row column"]

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "query key"], most: int = MAX_ROWS) -> "Pooled":
        """Pool a matrix to at most that many rows and columns; NaN gives way to numbers.

        >>> Pooled.of(np.array([[1.0, -3.0], [np.nan, 2.0]]), most=1).at
        array([[1]])
        """
        queries, keys = matrix.shape
        side = -(-max(matrix.shape) // most)
        if side == 1:
            return cls(1, np.arange(matrix.size).reshape(matrix.shape))
        rows, columns = -(-queries // side), -(-keys // side)
        size = np.full((rows * side, columns * side), -2.0, dtype=np.float32)
        size[:queries, :keys] = np.nan_to_num(np.abs(matrix), nan=-1.0)
        blocks = size.reshape(rows, side, columns, side).swapaxes(1, 2).reshape(rows, columns, -1)
        down, across = np.divmod(blocks.argmax(-1), side)
        down += side * np.arange(rows)[:, None]
        across += side * np.arange(columns)
        return cls(side, down * keys + across)

    def take(self, matrix: NDArray[S]) -> NDArray[S]:
        """Return the numbers at these places of a matrix of the same shape."""
        return matrix if self.side == 1 else matrix.ravel()[self.at]

    def names(self, labels: Sequence[str]) -> list[str]:
        """Return the cells' names: the first and the last token of each.

        >>> Pooled(2, np.zeros((2, 2), int)).names(["a", "b", "c"])
        ['a … b', 'c']
        """
        if self.side == 1:
            return list(labels)
        groups = [labels[start : start + self.side] for start in range(0, len(labels), self.side)]
        return [g[0] if len(g) == 1 else f"{g[0]} … {g[-1]}" for g in groups]

    @property
    def note(self) -> str:
        """The meaning of a cell in words; "" where it is one number."""
        side = self.side
        return "" if side == 1 else f"each cell is the largest of {side} × {side}"


class ChartSize(TypedDict, total=False):
    """The most pixels of a side of the cells, and the width of the chart where it is narrow.

    The chart always stretches, but only a known width (a phone's) thins out labels that would
    overlap.
    """

    side: int
    width: int | None


def head_heatmap(
    pattern: Float[np.ndarray | Tensor, "query key"],
    labels: tuple[Sequence[str], Sequence[str]],
    *,
    title: str = "",
    scale: str = "sqrt",
    dark: bool = False,
    visible: Bool[np.ndarray | Tensor, "query key"] | None = None,
    **size: Unpack[ChartSize],
) -> go.Figure:
    """Draw a heatmap of one head's weights (query, key) with tokens on both axes.

    `labels` are those of queries and of keys. The chart holds the weights as they are (float32,
    about 5.4 bytes a cell on the wire): the curve of the scale ("sqrt", "linear" or "log") lies in
    the colours, and the colour bar names true weights at the places that the scale gives them.
    Without a `side` the cells lie in 620 pixels. Cells whose keys are not
    `visible` to a query are grey and named masked. Beyond 512 tokens a cell is the largest of
    several weights, and the title says of how many.
    """
    weights, query_names, key_names = frame.labelled_head(pattern, labels)
    side, width = size.get("side", 620), size.get("width")
    shown_weights = frame.where_visible(weights, visible, np.nan)
    pooled = Pooled.of(shown_weights)
    shown_weights = pooled.take(shown_weights)
    query_names, key_names = pooled.names(query_names), pooled.names(key_names)
    title = " · ".join(part for part in (title, pooled.note) if part)
    queries, keys = shown_weights.shape
    cell = min(max(side / max(queries, keys), 1.0), 64.0)
    shown = min(cell, max(width - 110, 60) / keys) if width else cell
    across, down = (
        cells.fitting_ticks(names, shown, letters=_LETTERS, largest=12.5)
        for names in (key_names, query_names)
    )
    colours = dict(zmin=0.0, zmax=1.0, showscale=False, colorscale=theme.colorscale(scale, dark))
    hover = f"%{{y}} → %{{x}}<br>weight <b>{theme.hover('z')}</b><extra></extra>"
    above = _TITLE * bool(title)
    height = round(cell * queries + 6.3 * cells.longest_label(across) + 22 + above + _BAR)
    overhang = _overhang(across, keys, shown)
    corner = dict(x=0, xref="container", y=1, yref="container", yanchor="top", pad=dict(t=6, l=4))
    heading = dict(corner, text=plotly_text(title), font=dict(size=15, color=theme.ink(dark)))
    margin = dict(l=8, r=12 + overhang, t=above + _BAR, b=12)
    layout: Part = dict(title=heading, height=height, margin=margin, showlegend=False)
    layout |= dict(hovermode="closest", dragmode="zoom")
    traces = [cells.heatmap_cells(shown_weights, cell, colours, hover)]
    traces.append(_colour_bar(scale, dark, above))
    if np.isnan(shown_weights).any():
        traces.append(cells.masked(np.isnan(shown_weights), cell, dark))
        swatch = dict(symbol="square", size=11, color=theme.missing(dark))
        named = dict(mode="markers", marker=swatch, name="masked", showlegend=True)
        traces.append(cells.label_axes_trace() | named)
        layout |= _masked_legend(dark, (above + 4) / height)
    axes = frame.merged(cells.named_axes(query_names, key_names, down, across), _SQUARE)
    figure = frame.build_figure(traces, dark, layout | axes)
    return cells.with_height_rule(figure, cell, down, (queries, keys))


def head_html(
    pattern: Float[np.ndarray | Tensor, "query key"],
    labels: tuple[Sequence[str], Sequence[str]],
    *,
    title: str = "",
    caption: str = "",
    scale: str = "sqrt",
    visible: Bool[np.ndarray | Tensor, "query key"] | None = None,
) -> str:
    """Return one head's `head_heatmap` as one HTML document with plotly's script (about 4.5 MB)."""
    figure = head_heatmap(pattern, labels, scale=scale, visible=visible)
    return figure_html(figure, title=title, caption=caption)


def _masked_legend(dark: bool, below: float) -> Part:
    """Return a legend of masked cells beside the colour bar, `below` of the height from the top."""
    position = dict(x=1, xref="container", xanchor="right", y=1 - below, yref="container")
    font = dict(size=11, color=theme.muted(dark))
    fixed = dict(itemclick=False, itemdoubleclick=False)
    legend = dict(position, **fixed, yanchor="top", font=font, bgcolor="rgba(0,0,0,0)")
    return dict(showlegend=True, legend=legend)


def _overhang(ticks: Part, keys: int, cell: float) -> float:
    """Return how far slanted labels of the last columns reach past the right edge."""
    pairs = zip(ticks["tickvals"], ticks["ticktext"], strict=True)
    reach = (3.2 * min(len(text), _LETTERS) - (keys - 1 - key) * cell for key, text in pairs)
    return max(0.0, *reach)


def _colour_bar(scale: str, dark: bool, top: int) -> Part:
    """Return an empty trace that carries the colour bar, in places of the scale, not weights."""
    ticks = np.array(theme.ticks(scale), dtype=np.float32)
    tick_shares = theme.scale_weights(ticks, scale)
    named: list[int] = []
    for i, tick_share in enumerate(tick_shares):
        if (
            not named or tick_share - tick_shares[named[-1]] >= 0.08
        ):  # else its number covers the one before
            named.append(i)
    bar = cells.colour_bar(dark, {float(tick_shares[i]): f"{ticks[i]:g}" for i in named})
    bar |= dict(xref="container", xpad=10, y=1, yref="container", yanchor="top", ypad=top + 4)
    stops = theme.stops(theme.sequential(dark))
    marker = dict(color=[0], cmin=0, cmax=1, showscale=True, colorscale=stops, colorbar=bar)
    return cells.label_axes_trace() | dict(mode="markers", showlegend=False, marker=marker)


def head_tiles(
    patterns: Any,
    *,
    title: str,
    note: str = "",
    marked: Collection[tuple[int, int]] = (),
    dark: bool = False,
    visible: Any = None,
) -> go.Figure:
    """Draw a small heatmap for each head, four in a row, a new row for each layer.

    `patterns` are weights (layer, head, query, key), `marked` heads (layer, head) are framed, cells
    that are not `visible` (query, key) are grey. More than 32 heads or 64 tokens raise
    ArgumentError.
    """
    weights = frame.where_visible(frame.as_weights(patterns, 4), visible, np.nan)
    n_layers, n_heads, queries, keys = weights.shape
    if n_layers * n_heads > MAX_TILES or max(queries, keys) > MAX_TOKENS:
        raise ArgumentError(f"At most {MAX_TILES} heads of {MAX_TOKENS} tokens can be drawn small.")
    across = min(_ACROSS, n_heads)
    lines = -(-n_heads // across)  # of one layer
    label = _LABEL / _TILE_HEIGHT
    traces: list[Part] = []
    names: list[Part] = []
    frames: list[Part] = []
    corner: Part = dict(xanchor="left", yanchor="bottom", borderpad=0)
    for layer, head in np.ndindex(n_layers, n_heads):
        x_tile = (head % across) * (1 + _GAP)
        above = (layer * lines + head // across) * (1 + label) + label
        name = head_name(layer, head)
        traces += _tile(weights[layer, head], name, x_tile, above, dark)
        names.append(frame.annotation(name, x_tile, above, theme.ink(dark), **corner))
        if (layer, head) in marked:
            frames.append(frame.framed((x_tile, above), (x_tile + 1, above + 1), 3, dark))
    rows = n_layers * lines
    layout = dict(
        annotations=names,
        shapes=frames,
        xaxis=frame.HIDDEN | dict(range=[-0.01, across * (1 + _GAP) - _GAP + 0.01]),
        yaxis=frame.HIDDEN | dict(range=[rows * (1 + label) + 0.01, 0]),
    )
    inner = round(rows * (1 + label) * _TILE_HEIGHT) + 12
    border = frame.Border(left_side=4, right_side=4)
    return frame.headed_figure(traces, dark, title, [note], inner, layout, border)


def _tile(weights: np.ndarray, name: str, x: float, above: float, dark: bool) -> list[Part]:
    """Return one head's cells, a unit wide and high; customdata is (query, key)."""
    queries, keys = weights.shape
    corner: Part = dict(x0=x + 0.5 / keys, dx=1 / keys, y0=above + 0.5 / queries, dy=1 / queries)
    corner |= dict(customdata=np.moveaxis(np.indices((queries, keys)), 0, -1).astype(np.uint8))
    named = name + "<br>query %{customdata[0]} → key %{customdata[1]}"
    colours = theme.colorscale("sqrt", dark, stops=21)
    look = dict(zmin=0.0, zmax=1.0, showscale=False, colorscale=colours)
    hover = f"{named}<br>weight <b>{theme.hover('z')}</b><extra></extra>"
    drawn, hidden = [cells.heatmap_cells(weights, 1.0, look, hover)], np.isnan(weights)
    if hidden.any():
        drawn.append(cells.masked(hidden, 1.0, dark, named))
    return [trace | corner for trace in drawn]
