"""All metrics of all heads: a small map of layers and heads for each."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.frame import Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, hover_text, plotly_text

_ACROSS, _STEP = 3, 1.08  # maps side by side, as many as fit a phone; from one to the next
_LETTERS, _TEXT = 18, 46  # of a line above a map; height of two lines of a name and the range
_LOW, _CELL, _HIGH = 26, 11, 150  # heights in pixels: of the lowest map, a cell, the highest map
_ROUNDING = 1e-5  # heads whose values differ by a smaller share have the same value


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
        traces += _map(i, title, values, units.get(title, ""), corner, cell, dark)
        texts.append(_heading(title, values, units.get(title, ""), title == chosen, corner, dark))
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
    over += cells.clickable(
        values, heads, name, f"<b>%{{marker.color:.3~g}}</b> {hover_text(unit)}"
    )
    for trace in over:
        trace |= dict(x=np.float32(x0 + dx * trace["x"]), y=np.float32(y0 + dy * trace["y"]))
    return [cells.heatmap_cells(values, 1.0, colours) | place, *over]


def _heading(
    title: str, values: Numbers, unit: str, chosen: bool, corner: Numbers, dark: bool
) -> Part:
    """Return what stands above a map: its name in at most two lines, and the range."""
    lines = map(plotly_text, textwrap.wrap(clean(title, 2 * _LETTERS), _LETTERS)[:2])
    span = " to ".join(dict.fromkeys(f"{end:.3g}" for end in _ends(values)))
    span = f"{span} {frame.unit_text(unit)}".strip() if np.isfinite(values).any() else "not defined"
    text = f'{"<br>".join(lines)}<br><span style="color:{theme.muted(dark)}">{span}</span>'
    look: Part = dict(xanchor="left", yanchor="bottom", align="left", borderpad=0)
    found = frame.annotation(text, corner[0], corner[1], theme.ink(dark), 11, yshift=3, **look)
    return found | dict(font=found["font"] | dict(weight=700 if chosen else 400))


def _ends(values: Numbers) -> tuple[float, float]:
    """Return the smallest and the largest value; 0 and 0 where there is none."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
