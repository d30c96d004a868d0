"""Maps of heads: one for each metric, points in a plane, and the queries and keys of a head."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from jaxtyping import Int, Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.cells import BAR, colour_bar
from mha_viz.plots.frame import Mask, Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, hover_text, layer_names, plotly_text

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
    selected: tuple[int, int] | None = None,
    layer_numbers: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw a map of all heads, one unit as long across as down; the axes themselves mean nothing.

    `coordinates` (head2, 2) are those of `classical_mds`. Colours follow the cluster, each of which
    has a marker of its own (negative: in none), or the layer where `clusters` is None. Names stand
    beside at most 24 points, the chosen one's always. customdata of every point is [layer, head].
    Heads that lie where another lies are counted; `explained` is the share of the distances'
    variation that the plane shows; `layer_numbers` are the model's own, if not 0, 1, 2 ...
    """
    points = frame.as_numbers(coordinates, 2, "coordinates (head2, 2)")
    size = len(points)
    if points.shape[1] != 2 or (clusters is not None and len(clusters) != size):
        raise ShapeError(f"Coordinates must be (head2, 2) and clusters (head2,): {points.shape}.")
    if n_heads < 1 or size % n_heads:
        raise ArgumentError(f"{size} heads do not fill layers of {n_heads}.")
    labels = frame.check_names(names, size)
    known = ~np.isnan(points.sum(axis=1))
    traces: list[Part] = []
    modes = ("markers+text", "markers") if size <= _NAMED else ("markers", "markers+text")
    of_layers = layer_names(size // n_heads, layer_numbers)
    for part, look in _parts(known, of_layers, clusters, dark):
        dots = _points(part, points, labels, n_heads)
        traces.append(dots | look | frame.keep_on_click(0.9) | dict(mode=modes[0]))
    if selected is not None:
        layer, head = frame.check_head(selected, size // n_heads, n_heads)
        index = np.array([layer * n_heads + head])
        dot = _points(index[known[index]], points, labels, n_heads) | frame.keep_on_click(1)
        look = dict(mode=modes[1], name=labels[index[0]], marker=frame.chosen_marker(dark, 15))
        traces.append(dot | look)
    notes, named = _notes(points, known, explained), clusters is not None
    margins = frame.Margins(above=0 if named else BAR, left=10, right=10, below=10)
    layout = _axes(points[known], dark) | dict(dragmode="pan")
    return frame.headed_figure(traces, dark, "", notes, 440, layout, margins, named=named)


def _parts(
    known: Mask, layers: Sequence[str], clusters: Any, dark: bool
) -> list[tuple[NDArray[np.intp], Part]]:
    edge = dict(width=1, color=theme.paper(dark))
    if clusters is None:
        heads, n_heads = np.flatnonzero(known), len(known) // len(layers)
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
    for cluster in np.unique(numbers[known]).tolist():
        heads = np.flatnonzero(known & (numbers == cluster))
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


def _notes(points: Numbers, known: Mask, explained: float | None) -> list[str]:
    n_hidden = int(known.sum()) - len(np.unique(points[known], axis=0))
    notes = [frame.missing_note(known)]
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
        place = KINDS.index(str(kind))
        colour = theme.qualitative(dark)[place]
        look = dict(color=colour, symbol=SYMBOLS[place], size=6, opacity=0.85, line=dict(width=0))
        x, y = (frame.as_numbers(rows[axis], 1, axis).astype(np.float32) for axis in "xy")
        hovers = [_query_key_hover(row) for row in rows.itertuples()]
        dots = frame.markers(x, y, hovers, marker=look)
        kinds = dict(type="scattergl" if len(table) > _WEBGL else "scatter")
        traces.append(dots | kinds | dict(name={"query": "queries"}.get(str(kind), "keys")))
    bare = frame.QUIET | dict(showticklabels=False)
    layout = dict(xaxis=bare, yaxis=bare | dict(scaleanchor="x"), dragmode="pan")
    title = f"Queries and keys of {head_name(*head)}"
    return frame.headed_figure(traces, dark, title, notes, _HEIGHT, layout, named=True)


def _query_key_hover(row: Any) -> str:

    told = f"{row.kind} {clean(row.token)}, position {row.position} of text {row.text + 1}"
    if row.kind == "query":
        told += f"; looks at {clean(row.looks_at)} ({theme.format_weight(row.weight)})"
    return hover_text(told)


def metric_maps(
    maps: Mapping[str, Num[np.ndarray | Tensor, "layer head"]],
    units: Mapping[str, str],
    *,
    chosen: str = "",
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw a small map (layer, head) for each metric, by its title, on a colour scale of its own.

    Colours run from the smallest to the largest value, which stand above each map with three
    significant digits and the unit in `units`, if there is one. A head without a value (NaN) is
    grey and hatched. The map of the `chosen` metric is framed, and so is the `selected` head in
    every map. customdata of an invisible point in each cell is [place of the metric, layer, head].
    Raises ArgumentError: no metric, or no such head. ShapeError: maps of different shapes.
    """
    numbers = {title: frame.as_numbers(each, 2, title) for title, each in maps.items()}
    if not numbers:
        raise ArgumentError("There is no metric to draw.")
    layers, heads = shape = next(iter(numbers.values())).shape
    if any(each.shape != shape for each in numbers.values()):
        raise ShapeError(f"All maps must have the shape of the first, {shape}.")
    tall = min(max(layers * _CELL, _LOW), _HIGH)
    row_height, cell = _TEXT + tall + 10, np.array((1 / heads, tall / layers))
    traces: list[Part] = []
    texts, rectangles, frames = [], [], []
    for i, (title, values) in enumerate(numbers.items()):
        corner = np.array((i % _ACROSS * _STEP, i // _ACROSS * row_height + _TEXT))
        box = tuple(corner), tuple(corner + np.array((1, tall)))
        unit = units.get(title, "")
        traces += _map(i, title, values, unit, corner, cell, dark)
        texts.append(_map_heading(title, values, unit, title == chosen, corner, dark))
        rectangles.append(frame.rectangle(*box, layer="below", fillcolor=theme.missing(dark)))
        rectangles += [frame.framed(*box, 3, dark)] * (title == chosen)
        if selected is not None:
            near = corner + cell * frame.check_head(selected, layers, heads)[::-1]
            frames.append((*near, *(near + cell)))
    traces.append(cells.frame_trace(frames, 2, theme.accent(dark)))
    inner = -(-len(numbers) // _ACROSS) * row_height
    across = frame.HIDDEN | dict(range=[-0.01, min(len(numbers), _ACROSS) * _STEP - _STEP + 1.01])
    layout = dict(hoverdistance=-1, annotations=texts, shapes=rectangles, xaxis=across)
    layout |= dict(yaxis=frame.HIDDEN | dict(range=[inner, 0]))
    margins = frame.Margins(left=4, right=4, below=0)
    return frame.headed_figure(traces, dark, "", [], inner, layout, margins)


def _map(
    number: int, title: str, values: Numbers, unit: str, corner: Numbers, cell: Numbers, dark: bool
) -> list[Part]:
    low, high = _ends(values)
    same = high - low <= _ROUNDING * abs(high)
    colours = cells.scale_colours(values, False, (low, low) if same else None, dark)
    (x0, y0), (dx, dy) = corner + cell / 2, cell
    place = dict(x0=x0, dx=dx, y0=y0, dy=dy, showscale=False)
    heads = np.insert(np.moveaxis(np.indices(values.shape), 0, -1), 0, number, axis=-1)
    name = f"{hover_text(clean(title, 60))}<br>L%{{customdata[1]}} H%{{customdata[2]}}"
    over = cells.hatching(np.isnan(values), dark)
    shown = f"<b>{theme.hover('marker.color')}</b> {hover_text(unit)}"
    over += cells.clickable(values, heads, name, shown)
    for trace in over:
        trace |= dict(x=np.float32(x0 + dx * trace["x"]), y=np.float32(y0 + dy * trace["y"]))
    return [cells.heatmap_cells(values, 1.0, colours) | place, *over]


def _map_heading(
    title: str, values: Numbers, unit: str, chosen: bool, corner: Numbers, dark: bool
) -> Part:
    """Return what stands above a map: its name in at most two lines, and the range."""
    lines = map(plotly_text, textwrap.wrap(clean(title, 2 * _LETTERS), _LETTERS)[:2])
    span = " to ".join(dict.fromkeys(theme.format_number(end) for end in _ends(values)))
    span = f"{span} {frame.unit_text(unit)}".strip() if np.isfinite(values).any() else "not defined"
    text = f'{"<br>".join(lines)}<br><span style="color:{theme.muted(dark)}">{span}</span>'
    look: Part = dict(xanchor="left", yanchor="bottom", align="left", borderpad=0)
    found = frame.annotation(text, corner[0], corner[1], theme.ink(dark), 11, yshift=3, **look)
    return found | dict(font=found["font"] | dict(weight=700 if chosen else 400))


def _ends(values: Numbers) -> tuple[float, float]:
    """Return the smallest and the largest value; 0 and 0 where there is none."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
