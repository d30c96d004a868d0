"""Numbers over the layers of a model: all heads of each layer, or one line per quantity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.frame import (
    DASHES,
    Limits,
    as_numbers,
    check_head,
    chosen_marker,
    headed_figure,
    keep_on_click,
    layer_axis,
    missing_note,
    quantity,
    rectangle,
    series_look,
    unit_text,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, hover_text, plotly_text

_SPREAD = 0.66  # how much of a layer's width its heads take


def by_layer(
    values: Num[np.ndarray | Tensor, "layer head"],
    title: str,
    unit: str,
    *,
    selected: tuple[int, int] | None = None,
    baselines: Mapping[str, SupportsFloat] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw every head (layer, head) as a dot over its layer, the layers' means as a line.

    Heads of a layer stand side by side in their order, so that none hides another. `baselines` are
    dashed lines by name. The first trace has the dots; their customdata is [layer, head].
    """
    numbers = as_numbers(values, 2, "values (layer, head)")
    layers, heads = numbers.shape
    place = np.arange(layers)[:, None] + _SPREAD * ((np.arange(heads) + 0.5) / heads - 0.5)
    known = np.isfinite(numbers)
    rows, columns = (axis.tolist() for axis in np.nonzero(known))
    line = f"<b>%{{y:.4~g}}</b> {hover_text(clean(unit, 30)) if unit else ''}<extra></extra>"
    dots = dict(
        x=place[known],
        y=numbers[known],
        mode="markers",
        name="a head",
        text=[head_name(*where) for where in zip(rows, columns, strict=True)],
        customdata=[list(where) for where in zip(rows, columns, strict=True)],
        marker=dict(size=6.5, color=theme.qualitative(dark)[0], opacity=0.7),
        hovertemplate="%{text}<br>" + line,
        **keep_on_click(0.7),
    )
    traces = [dots, _means(numbers, line, dark)]
    for i, (name, level) in enumerate((baselines or {}).items()):
        if np.isfinite(float(level)):
            traces.append(_baseline(i, name, float(level), unit, layers, dark))
    if selected is not None:
        layer, head = check_head(selected, layers, heads)
        traces.append(
            dict(
                x=[float(place[layer, head])],
                y=[float(numbers[layer, head])],
                mode="markers",
                name=f"{head_name(layer, head)}: {quantity(float(numbers[layer, head]), unit)}",
                text=[head_name(layer, head)],
                customdata=[[layer, head]],
                marker=chosen_marker(dark),
                hovertemplate="%{text}<br>" + line,
                **keep_on_click(1),
            )
        )
    note = missing_note(int(numbers.size - known.sum()), numbers.size)
    return _over_layers(traces, title, unit, note, layers, dark)


def _means(numbers: NDArray[np.float64], line: str, dark: bool) -> dict[str, Any]:
    known = np.isfinite(numbers)
    count = known.sum(axis=1)
    with np.errstate(invalid="ignore"):
        means = np.where(known, numbers, 0.0).sum(axis=1) / count
    return dict(
        x=np.arange(len(numbers)),
        y=means,
        mode="lines+markers",
        name="mean of the layer",
        connectgaps=False,
        customdata=count,
        hovertext=[f"{n} head{'s' * (n != 1)}" for n in count.tolist()],
        line=dict(width=2, color=theme.ink(dark)),
        marker=dict(symbol="line-ew-open", size=14, line=dict(width=2.5, color=theme.ink(dark))),
        hovertemplate="layer %{x}, mean of %{hovertext}<br>" + line,
    )


def _baseline(
    i: int, name: str, level: float, unit: str, layers: int, dark: bool
) -> dict[str, Any]:
    colours = theme.qualitative(dark)
    label = clean(name, 40)
    return dict(
        x=np.linspace(-0.6, layers - 0.4, 2 * layers + 1),
        y=np.full(2 * layers + 1, level),
        mode="lines",
        name=f"{plotly_text(label)}: {quantity(level, unit)}",
        line=dict(width=2, dash=DASHES[1 + i % 5], color=colours[1 + i % 7]),
        hovertemplate=hover_text(label) + "<br><b>%{y:.4~g}</b><extra></extra>",
    )


def layer_lines(
    series: Mapping[str, Num[np.ndarray | Tensor, " layer"]],
    title: str,
    unit: str,
    *,
    band: Limits | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw one line per series (layer,); colour, dash and marker tell them apart.

    Where a series is not defined (NaN) its line has a gap. A layer without a gap on both sides
    still has its marker. `band` (low, high) is shaded over all layers: what chance gives.
    """
    if not series:
        raise ArgumentError("There is no series to draw.")
    lines = {name: as_numbers(values, 1, name) for name, values in series.items()}
    layers = len(next(iter(lines.values())))
    if any(len(values) != layers for values in lines.values()):
        sizes = {name: len(values) for name, values in lines.items()}
        raise ShapeError(f"All series must have a number per layer; got {sizes}.")
    traces = [
        dict(
            x=np.arange(layers),
            y=values,
            mode="lines+markers",
            name=plotly_text(clean(name, 40)),
            cliponaxis=False,
            connectgaps=False,
            hovertemplate=hover_text(clean(name, 40)) + " <b>%{y:.4~g}</b><extra></extra>",
            **series_look(i, 8, dark),
        )
        for i, (name, values) in enumerate(lines.items())
    ]
    missing = sum(int(np.isnan(values).sum()) for values in lines.values())
    note = missing_note(missing, layers * len(lines), "points")
    together: dict[str, Any] = dict(
        hovermode="x unified", xaxis=dict(unifiedhovertitle=dict(text="layer %{x}"))
    )
    if band is not None:
        look = dict(fillcolor=theme.muted(dark), opacity=0.25, layer="below", xref="paper")
        together["shapes"] = [rectangle((0, float(band[0])), (1, float(band[1])), **look)]
    return _over_layers(traces, title, unit, note, layers, dark).update_layout(together)


def _over_layers(
    traces: list[dict[str, Any]], title: str, unit: str, note: str, layers: int, dark: bool
) -> go.Figure:
    down = dict(zeroline=False, showline=False, nticks=7, fixedrange=True)
    name = dict(text=unit_text(unit), font=dict(size=12), standoff=4)
    layout = dict(xaxis=layer_axis(layers), yaxis=dict(down, title=name))
    inner = 310 + 16 * len(traces)  # a phone has a line for every entry of the legend
    return headed_figure(traces, dark, title, [note], inner, layout, sides=(8, 10), named=True)
