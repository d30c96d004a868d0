"""Maps of heads: one for each metric, points in a plane, and the queries and keys of a head."""

from collections.abc import Sequence
from typing import Any, SupportsFloat, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from jaxtyping import Int, Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import frame
from mha_viz.plots.cells import BAR, colour_bar
from mha_viz.plots.frame import Mask, Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, hover_text, layer_names

_NAMED = 24  # heads up to which each has its name beside it
KINDS = ("query", "key")
SYMBOLS = ("circle", "diamond-open")
_WEBGL = 4_000  # points from which on a browser draws them with its graphics card
_HEIGHT = 560  # pixels
_ACROSS, _STEP = 3, 1.08  # maps side by side, as many as fit a phone; from one to the next
_LETTERS, _TEXT = 18, 46  # of a line above a map; height of two lines of a name and the range
_LOW, _CELL, _HIGH = 26, 11, 150  # heights in pixels: of the lowest map, a cell, the highest map
_ROUNDING = 1e-5  # heads whose values differ by a smaller share have the same value


def head_map(
    coordinates: Num[np.ndarray | Tensor, "head2 2"],
    names: Sequence[str],
    n_heads: int,
    *,
    clusters: Int[np.ndarray, " head2"] | Sequence[int] | None = None,
    explained: float | None = None,
    **look: Unpack[frame.HeadLook],
) -> go.Figure:
    """Draw a map of all heads, one unit as long across as down; the axes themselves mean nothing.

    `coordinates` (head2, 2) are those of `classical_mds`. Colours follow the cluster, and each
    has a marker of its own (negative: in none), or the layer where `clusters` is None. Names stand
    beside at most 24 points, the chosen one's always. customdata of every point is [layer, head].
    Heads that lie where another lies are counted; `explained` is the share of the distances'
    variation that the plane shows.
    """
    points = frame.as_numbers(coordinates, 2, "coordinates (head2, 2)")
    size, dark = len(points), look.get("dark", False)
    if points.shape[1] != 2 or (clusters is not None and len(clusters) != size):
        raise ShapeError(f"Coordinates must be (head2, 2) and clusters (head2,): {points.shape}.")
    if n_heads < 1 or size % n_heads:
        raise ArgumentError(f"{size} heads do not fill layers of {n_heads}.")
    labels = frame.check_names(names, size)
    has_point = ~np.isnan(points.sum(axis=1))
    traces: list[Part] = []
    modes = ("markers+text", "markers") if size <= _NAMED else ("markers", "markers+text")
    of_layers = layer_names(size // n_heads, look.get("layer_numbers", ()))
    for part, style in _parts(has_point, of_layers, clusters, dark):
        dots = _points(part, points, labels, n_heads)
        traces.append(dots | style | frame.keep_on_click(0.9) | dict(mode=modes[0]))
    if (selected := look.get("selected")) is not None:
        layer, head = frame.check_head(selected, size // n_heads, n_heads)
        index = np.array([layer * n_heads + head])
        dot = _points(index[has_point[index]], points, labels, n_heads) | frame.keep_on_click(1)
        style = dict(mode=modes[1], name=labels[index[0]], marker=frame.chosen_marker(dark, 15))
        traces.append(dot | style)
    notes, named = _notes(points, has_point, explained), clusters is not None
    border = frame.Border(0 if named else BAR, 10, 10, 10, legend=named)
    layout = _axes(points[has_point], dark) | dict(dragmode="pan")
    return frame.headed_figure(traces, dark, "", notes, 440, layout, border)


def _parts(
    has_point: Mask, layers: Sequence[str], clusters: Any, dark: bool
) -> list[tuple[NDArray[np.intp], Part]]:
    edge = dict(width=1, color=theme.paper(dark))
    if clusters is None:
        heads, n_heads = np.flatnonzero(has_point), len(has_point) // len(layers)
        scale = theme.sequential(dark)[2:]  # its palest colours are hard to see as points
        step = -(-len(layers) // 8)
        marks: dict[SupportsFloat, str] = {i: layers[i] for i in range(0, len(layers), step)}
        bar = colour_bar(dark, marks, length=250)
        marker = dict(size=11, opacity=0.9, line=dict(width=1, color=theme.muted(dark)))
        marker |= dict(color=heads // n_heads, cmin=0, cmax=max(len(layers) - 1, 1))
        marker |= dict(colorscale=theme.stops(scale), colorbar=bar)
        return [(heads, dict(marker=marker, name="heads"))]
    numbers = np.asarray(clusters)
    colours = theme.qualitative(dark)
    parts = []
    for cluster in np.unique(numbers[has_point]).tolist():
        heads = np.flatnonzero(has_point & (numbers == cluster))
        colour = colours[cluster % len(colours)] if cluster >= 0 else theme.muted(dark)
        symbol = frame.SYMBOLS[cluster % len(frame.SYMBOLS)] if cluster >= 0 else "circle-open"
        marker = dict(size=11, opacity=0.9, color=colour, symbol=symbol, line=edge)
        name = f"cluster {cluster + 1}" if cluster >= 0 else "in no cluster"
        parts.append((heads, dict(marker=marker, name=f"{name} ({len(heads)})")))
    return parts


def _points(heads: NDArray[np.intp], points: Numbers, labels: list[str], n_heads: int) -> Part:
    dots = dict(x=points[heads, 0], y=points[heads, 1], text=[labels[i] for i in heads])
    dots |= dict(customdata=[list(divmod(int(i), n_heads)) for i in heads])
    dots |= dict(
        hovertemplate=f"%{{text}}<br>at ({theme.hover('x')}, {theme.hover('y')})<extra></extra>"
    )
    return dots | dict(textposition="top center", textfont=dict(size=10))


def _notes(points: Numbers, has_point: Mask, explained: float | None) -> list[str]:
    n_hidden = int(has_point.sum()) - len(np.unique(points[has_point], axis=0))
    notes = [frame.missing_note(has_point)]
    if explained is not None:
        share = f"{100 * explained:.0f} %" if np.isfinite(explained) else "not defined"
        notes.insert(0, f"What is close is alike. Variation shown: {share}.")
    return notes + [f"{n_hidden} heads lie where another lies."] * (n_hidden > 0)


def _axes(points: Numbers, dark: bool) -> Part:
    """Return ranges with room for names and markers; plotly widens one to fit the page."""
    axis = dict(showgrid=True, zeroline=False, showline=False, ticks="", showticklabels=False)
    axis |= dict(nticks=9, gridcolor=theme.gridline(dark))
    low, high = (end(points, axis=0) for end in (np.min, np.max)) if len(points) else ([0, 0],) * 2
    room = 0.08 * float(np.max(np.subtract(high, low))) or 1.0
    across, down = ([a - room, b + room] for a, b in zip(low, high, strict=True))
    return dict(xaxis=axis | dict(range=across), yaxis=axis | dict(range=down, scaleanchor="x"))


def query_key_figure(
    table: pd.DataFrame, head: tuple[int, int], notes: Sequence[str] = (), *, dark: bool = False
) -> go.Figure:
    """Draw a head's table of `QueryKeyMap.points_table` as dots, on axes of one scale."""
    traces = []
    for kind, rows in table.groupby("kind", sort=False):
        kind_index = KINDS.index(str(kind))
        colour = theme.qualitative(dark)[kind_index]
        look = dict(
            color=colour, symbol=SYMBOLS[kind_index], size=6, opacity=0.85, line=dict(width=0)
        )
        x, y = (frame.as_numbers(rows[axis], 1, axis).astype(np.float32) for axis in "xy")
        hovers = [_query_key_hover(row) for row in rows.itertuples()]
        dots = frame.markers(x, y, hovers, marker=look)
        kinds = dict(type="scattergl" if len(table) > _WEBGL else "scatter")
        traces.append(dots | kinds | dict(name={"query": "queries"}.get(str(kind), "keys")))
    bare = frame.QUIET | dict(showticklabels=False)
    layout = dict(xaxis=bare, yaxis=bare | dict(scaleanchor="x"), dragmode="pan")
    title = f"Queries and keys of {head_name(*head)}"
    return frame.headed_figure(
        traces, dark, title, notes, _HEIGHT, layout, frame.Border(legend=True)
    )


def _query_key_hover(row: Any) -> str:

    text = f"{row.kind} {clean(row.token)}, position {row.position} of text {row.text + 1}"
    if row.kind == "query":
        text += f"; looks at {clean(row.looks_at)} ({theme.format_weight(row.weight)})"
    return hover_text(text)
