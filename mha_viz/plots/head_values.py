"""A number for each head: over the layers, as a map, and over many texts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, Unpack

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.core.layer_numbers import is_counted
from mha_viz.core.reprs import count
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import frame
from mha_viz.plots.difference import head_changes
from mha_viz.plots.frame import Mask, Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, hover_text, layer_names, plotly_text

_SPREAD = 0.66  # the share of a layer's width that its heads take
_OPACITY = 0.65
_QUANTILES = 5


def by_layer(
    values: Num[np.ndarray | Tensor, "layer head"],
    title: str,
    unit: str,
    *,
    selected: tuple[int, int] | None = None,
    baselines: Mapping[str, SupportsFloat] | None = None,
    layer_numbers: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw every head (layer, head) as a dot over its layer, the layers' means as a line.

    Heads of a layer stand side by side in their order, so that none hides another. `baselines` are
    dashed lines by name; `layer_numbers` are the model's own, 0, 1, 2 ... if not given. The first
    trace has the dots; their customdata is [layer, head].
    """
    numbers = frame.as_numbers(values, 2, "values (layer, head)")
    layers, heads = numbers.shape
    x = np.arange(layers)[:, None] + _SPREAD * ((np.arange(heads) + 0.5) / heads - 0.5)
    has_value = np.isfinite(numbers)
    line = f"<b>{theme.hover('y')}</b> {hover_text(clean(unit, 30)) if unit else ''}<extra></extra>"

    def dots(where: Mask, name: str, marker: Part) -> Part:
        drawn = np.argwhere(where).tolist()
        names = [head_name(*head, numbers=layer_numbers) for head in drawn]
        points = dict(x=x[where], y=numbers[where], text=names, customdata=drawn)
        look = dict(mode="markers", name=name, marker=marker, hovertemplate="%{text}<br>" + line)
        return dict(**points, **look, **frame.keep_on_click(marker["opacity"]))

    look = dict(size=6.5, color=theme.qualitative(dark)[0], opacity=0.7)
    traces = [dots(has_value, "a head", look), _means(numbers, line, dark)]
    for i, (name, level) in enumerate((baselines or {}).items()):
        if np.isfinite(float(level)):
            traces.append(_baseline(i, name, float(level), unit, layers, dark))
    if selected is not None:
        chosen = frame.only_head(selected, np.ones_like(has_value))
        value = frame.quantity(float(numbers[selected]), unit)
        name = f"{head_name(*selected, numbers=layer_numbers)}: {value}"
        traces.append(dots(chosen, name, frame.chosen_marker(dark)))
    figure = _over_layers(traces, title, unit, frame.missing_note(has_value), layers, dark)
    return _numbered(figure, layer_numbers)


def _means(numbers: Numbers, line: str, dark: bool) -> Part:
    finite_values, ink = np.ma.masked_invalid(numbers), theme.ink(dark)
    n_known, means = finite_values.count(axis=1), finite_values.mean(axis=1).filled(np.nan)
    text = dict(hovertext=[count(n, "head") for n in n_known.tolist()], customdata=n_known)
    text |= dict(hovertemplate="layer %{x}, mean of %{hovertext}<br>" + line)
    mark = dict(symbol="line-ew-open", size=14, line=dict(width=2.5, color=ink))
    look = dict(mode="lines+markers", line=dict(width=2, color=ink), marker=mark, connectgaps=False)
    return dict(x=np.arange(len(numbers)), y=means, name="mean of the layer", **look, **text)


def _baseline(i: int, name: str, level: float, unit: str, layers: int, dark: bool) -> Part:
    label, colour = clean(name, 40), theme.qualitative(dark)[1 + i % 7]
    n, hover = (
        2 * layers + 1,
        f"{hover_text(label)}<br><b>{theme.hover('y')}</b><extra></extra>",
    )
    look = dict(mode="lines", line=dict(width=2, dash=frame.DASHES[1 + i % 5], color=colour))
    name = f"{plotly_text(label)}: {frame.quantity(level, unit)}"
    line_points = dict(x=np.linspace(-0.6, layers - 0.4, n), y=np.full(n, level))
    return dict(**line_points, **look, name=name, hovertemplate=hover)


def layer_lines(
    series: Mapping[str, Num[np.ndarray | Tensor, " layer"]],
    title: str,
    unit: str,
    *,
    band: frame.Limits | None = None,
    layer_numbers: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw one line per series (layer,); colour, dash and marker tell them apart.

    Where a series is not defined (NaN) its line has a gap. A layer without a gap on both sides
    still has its marker. `band` (low, high) is shaded over all layers: what chance gives.
    `layer_numbers` are the model's own, 0, 1, 2 ... if not given.
    """
    if not series:
        raise ArgumentError("There is no series to draw.")
    lines = {name: frame.as_numbers(values, 1, name) for name, values in series.items()}
    layers = len(next(iter(lines.values())))
    if any(len(values) != layers for values in lines.values()):
        sizes = {name: len(values) for name, values in lines.items()}
        raise ShapeError(f"All series must have a number per layer; got {sizes}.")
    traces: list[Part] = []
    line_look = dict(mode="lines+markers", cliponaxis=False, connectgaps=False)
    for i, (name, values) in enumerate(lines.items()):
        hover = f"{hover_text(clean(name, 40))} <b>{theme.hover('y')}</b><extra></extra>"
        line = dict(name=plotly_text(clean(name, 40)), hovertemplate=hover) | line_look
        traces.append(line | dict(x=np.arange(layers), y=values, **frame.series_look(i, 8, dark)))
    note = frame.missing_note(np.isfinite(np.stack(list(lines.values()))), "points")
    over_all = dict(unifiedhovertitle=dict(text="layer %{x}"))
    together: Part = dict(hovermode="x unified", xaxis=over_all)
    if band is not None:
        look = dict(fillcolor=theme.muted(dark), opacity=0.25, layer="below", xref="paper")
        together["shapes"] = [frame.rectangle((0, float(band[0])), (1, float(band[1])), **look)]
    figure = _over_layers(traces, title, unit, note, layers, dark).update_layout(together)
    return _numbered(figure, layer_numbers)


def _numbered(figure: go.Figure, layer_numbers: Sequence[int]) -> go.Figure:
    """Put the model's own numbers at the ticks of layers, if they are not counted from 0."""
    if is_counted(layer_numbers):
        return figure
    ticks = range(0, len(layer_numbers), -(-len(layer_numbers) // 16))
    names = [str(layer_numbers[layer]) for layer in ticks]
    return figure.update_xaxes(tickmode="array", tickvals=list(ticks), ticktext=names)


def _over_layers(
    traces: list[Part], title: str, unit: str, note: str, layers: int, dark: bool
) -> go.Figure:
    """Return the figure of these traces: each layer has a tick as long as they fit a phone."""
    across = dict(range=[-0.6, layers - 0.4], tickmode="linear", tick0=0, dtick=-(-layers // 16))
    across |= dict(showgrid=False, zeroline=False, showline=True, ticks="outside", ticklen=4)
    down = dict(zeroline=False, showline=False, nticks=7, fixedrange=True)
    layout = dict(
        xaxis=across | dict(title=frame.axis_title("layer"), fixedrange=True),
        yaxis=down | dict(title=dict(text=frame.unit_text(unit), font=dict(size=12), standoff=4)),
    )
    inner = 310 + 16 * len(traces)  # a phone has a line for every entry of the legend
    border = frame.Border(right_side=10, legend=True)
    return frame.headed_figure(traces, dark, title, [note], inner, layout, border)


def importance_map(
    values: Num[np.ndarray | Tensor, "layer head"],
    title: str,
    unit: str,
    *,
    interval: tuple[Any, Any] | None = None,
    **look: Unpack[frame.HeadLook],
) -> go.Figure:
    """Draw heads (layer, head) coloured by importance; hover shows the 95 % interval.

    From 0 up on a sequential scale; where a head is below 0 (the model does better without it), on
    a diverging scale around 0. An invisible point in each cell makes clicks readable: customdata is
    [layer, head]. `interval` are the lower and the upper ends of the intervals, each (layer, head);
    NaN is not defined (one text has no interval), as hover shows.
    """
    numbers = frame.as_numbers(values, 2, "values (layer, head)")
    signed, notes = bool(np.nanmin(numbers, initial=0.0) < 0), None
    if interval is not None:
        ends = [_of_shape(end, numbers, "an interval's end") for end in interval]
        notes = [[_interval(*pair) for pair in row] for row in np.stack(ends, axis=-1).tolist()]
    return head_changes(numbers, title, unit, diverging=signed, hover_notes=notes, **look)


def _of_shape(values: Any, numbers: Numbers, name: str) -> Numbers:
    other = frame.as_numbers(values, 2, f"{name} (layer, head)")
    if other.shape != numbers.shape:
        raise ShapeError(f"{name} must have shape {numbers.shape}; got {other.shape}.")
    return other


def _interval(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "95 % interval not defined"
    return f"95 % interval {theme.format_number(low)} to {theme.format_number(high)}"


def head_dots(x: Numbers, y: Numbers, where: Mask, hovers: list[str], marker: Part) -> Part:
    """Return a dot for each head of `where`; a click on one sends [layer, head]."""
    look = dict(marker=marker, customdata=np.argwhere(where).tolist())
    look |= frame.keep_on_click(marker["opacity"])
    return frame.markers(x[where], y[where], hovers, **look)


def head_quantiles(
    quantiles: Num[np.ndarray, "quantile layer head"],
    title: str,
    unit: str,
    *,
    selected: tuple[int, int] | None = None,
    layer_numbers: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw every head's spread over texts: its median, half of the texts thick, nine of ten thin.

    `quantiles` (5, layer, head) are those of 5, 25, 50, 75 and 95 %. Heads stand in their order,
    those of a layer together. customdata of the medians is [layer, head].
    """
    spread = frame.as_numbers(quantiles, 3, "quantiles (5, layer, head)")
    if len(spread) != _QUANTILES:
        raise ShapeError(f"quantiles must be {_QUANTILES} of each head, got {len(spread)}.")
    _, layers, heads = spread.shape
    x = np.arange(layers * heads).reshape(layers, heads) + 0.6 * np.arange(layers)[:, None]
    has_value = np.isfinite(spread[2])
    colour = theme.qualitative(dark)[0]
    traces: list[Part] = []
    for low, high, width in ((0, 4, 1), (1, 3, 5)):  # a vertical line for each head
        gap = np.full(int(has_value.sum()), np.nan)
        ends = np.c_[spread[low][has_value], spread[high][has_value], gap].ravel()
        traces.append(frame.plain_lines(np.repeat(x[has_value], 3), ends, width, colour))

    def medians(where: Mask, marker: Part) -> Part:
        hovers = [
            f"{head_name(*head, numbers=layer_numbers)}<br>"
            f"median <b>{frame.quantity(mid, unit)}</b><br>"
            f"half of the texts {frame.quantity(lower, '')} to {frame.quantity(upper, '')}<br>"
            f"nine of ten {frame.quantity(low, '')} to {frame.quantity(high, '')}"
            for head, (low, lower, mid, upper, high) in zip(
                np.argwhere(where).tolist(), spread[:, where].T.tolist(), strict=True
            )
        ]
        return head_dots(x, spread[2], where, hovers, marker)

    edge = dict(width=1.5, color=colour)
    traces.append(medians(has_value, dict(size=7, color=theme.paper(dark), line=edge, opacity=1)))
    if selected is not None:
        traces.append(
            medians(frame.only_head(selected, has_value), frame.chosen_marker(dark, size=10))
        )
    step = -(-layers // 16)
    middles, names = x.mean(1)[::step].tolist(), layer_names(layers, layer_numbers)[::step]
    across = frame.named_axis(middles, names, (-1, float(x.max()) + 1), tickangle=0)
    layout = dict(xaxis=across, yaxis=frame.value_axis(frame.with_unit(title, unit)))
    notes = ["Dot: median. Thick: half of the texts. Thin: 90 %.", frame.missing_note(has_value)]
    return frame.headed_figure(traces, dark, title, notes, 260, layout, frame.Border(below=30))
