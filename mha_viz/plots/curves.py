"""Lines over a number, with bands, levels and moments; and a path over a plane through a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.cells import BAR, colour_bar, scale_colours
from mha_viz.plots.frame import (
    annotation,
    as_numbers,
    axis_title,
    build_figure,
    chosen_marker,
    headed_figure,
    heading,
    legend,
    markers,
    merged,
    quantity,
    series_look,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

_MARKED = 40  # points up to which each has a marker
_LEAST = 1e-6  # nats: a smaller loss has no place on a logarithmic scale
_HEIGHT = 420  # of a landscape, in pixels
Axis = Literal["linear", "log"]


def curves(
    lines: Mapping[str, tuple[Any, Any]],
    *,
    title: str,
    x_title: str,
    y_title: str,
    bands: Mapping[str, tuple[Any, Any]] | None = None,
    levels: Mapping[str, float] | None = None,
    moments: Mapping[str, float] | None = None,
    note: str = "",
    x_axis: Axis = "linear",
    y_axis: Axis = "linear",
    height: int = 340,
    more: Mapping[str, Any] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw lines by name, each (x (point,), y (point,)); a y that is not finite leaves a gap.

    Colour, dash and marker tell lines apart, hover tells exact numbers. `bands` are (low (point,),
    high (point,)) around the line of the same name, `levels` dotted horizontal and `moments` dotted
    vertical lines by name. A "log" axis leaves out what is not above 0. `more` is plotly's layout
    over that of the figure: {"xaxis": ticks([1, 2, 4])}.
    """
    if not lines:
        raise ArgumentError("There is no line to draw.")
    traces: list[dict[str, Any]] = []
    for i, (name, given) in enumerate(lines.items()):
        x, y = (as_numbers(values, 1, name) for values in given)
        if x.shape != y.shape:
            raise ShapeError(f"{name}: {len(x)} places, but {len(y)} values.")
        if bands and name in bands:
            traces.append(_band(x, bands[name], name, theme.qualitative(dark)[i % 8]))
        traces.append(_line(x, y, name, i, x_title, dark))
    top, space = heading(title, [note], dark)
    below = 56 + (24 * -(-len(lines) // 2) if len(lines) > 1 else 0)
    marks = [_level(name, y, y_axis, dark) for name, y in (levels or {}).items()]
    marks += [_moment(name, x, x_axis, dark) for name, x in (moments or {}).items()]
    layout = dict(
        title=top,
        height=height,
        showlegend=len(lines) > 1,
        legend=legend(dark),
        margin=dict(l=56, r=14, t=space + 8, b=below),
        shapes=[shape for shape, _ in marks],
        annotations=[text for _, text in marks],
        xaxis=_axis(x_title, x_axis) | dict(showline=True, ticks="outside", ticklen=4),
        yaxis=_axis(y_title, y_axis) | dict(exponentformat="power" if y_axis == "log" else None),
    )
    return build_figure(traces, dark, merged(layout, more or {}))


def _axis(title: str, kind: Axis) -> dict[str, Any]:
    text = dict(font=dict(size=12), standoff=6, text=plotly_text(title))
    return dict(title=text, type=kind, zeroline=False, fixedrange=True)


def ticks(places: Sequence[int]) -> dict[str, Any]:
    """Return an axis with these places named, and no others."""
    return dict(
        tickmode="array", tickvals=list(places), ticktext=[f"{place:,}" for place in places]
    )


def _line(x: Any, y: Any, name: str, i: int, x_title: str, dark: bool) -> dict[str, Any]:
    label = plotly_text(clean(name, 60))
    return dict(
        x=x,
        y=y,
        name=label,
        hoverinfo="text",
        mode="lines+markers" if len(x) <= _MARKED else "lines",
        **series_look(i, 7, dark),
        hovertext=[
            f"{label}<br>{plotly_text(x_title)}: {quantity(a, '')}<br><b>{quantity(b, '')}</b>"
            for a, b in zip(x, y, strict=True)
        ],
    )


def _level(name: str, y: float, axis: Axis, dark: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a line from left to right, and its name above its end."""
    shape = dict(type="line", xref="paper", x0=0, x1=1, y0=y, y1=y, line=_dotted(dark))
    place: dict[str, Any] = dict(xref="paper", xanchor="right", yanchor="bottom")
    return shape, annotation(plotly_text(name), 1, _place(y, axis), theme.muted(dark), **place)


def _moment(name: str, x: float, axis: Axis, dark: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a line from bottom to top, and its name beside its upper end."""
    shape = dict(type="line", yref="paper", y0=0, y1=1, x0=x, x1=x, line=_dotted(dark))
    place: dict[str, Any] = dict(yref="paper", xanchor="left", yanchor="top")
    return shape, annotation(plotly_text(name), _place(x, axis), 1, theme.muted(dark), **place)


def _dotted(dark: bool) -> dict[str, Any]:
    return dict(width=1.5, dash="dot", color=theme.ink(dark))


def _place(value: float, axis: Axis) -> float:
    """Return where an annotation stands: unlike for lines, plotly wants the exponent of ten."""
    return math.log10(value) if axis == "log" and value > 0 else value


def _band(x: Any, band: tuple[Any, Any], name: str, colour: str) -> dict[str, Any]:
    low, high = (as_numbers(values, 1, f"band of {name}") for values in band)
    if not len(low) == len(high) == len(x):
        raise ShapeError(f"{name}: {len(x)} places, but a band of {len(low)} and {len(high)}.")
    known = np.isfinite(low) & np.isfinite(high)
    red, green, blue = theme.rgb(colour)
    return dict(
        x=np.concatenate([x[known], x[known][::-1]]),
        y=np.concatenate([high[known], low[known][::-1]]),
        fill="toself",
        mode="lines",
        line=dict(width=0),
        fillcolor=f"rgba({red},{green},{blue},0.2)",
        hoverinfo="skip",
        showlegend=False,
    )


def landscape(
    x: Num[np.ndarray | Tensor, " across"],
    y: Num[np.ndarray | Tensor, " down"],
    loss: Num[np.ndarray | Tensor, "down across"],
    path: Num[np.ndarray | Tensor, "point 2"],
    steps: Sequence[int],
    *,
    title: str,
    x_title: str,
    y_title: str,
    note: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw lines of equal loss on a plane, and a path over it.

    The loss, in nats and above 0, is coloured by its logarithm. `path` is where each of `steps`
    lies on the plane; the last one is marked.
    """
    across, down = as_numbers(x, 1, "x"), as_numbers(y, 1, "y")
    height, way = as_numbers(loss, 2, "loss"), as_numbers(path, 2, "path")
    if height.shape != (len(down), len(across)) or way.shape != (len(steps), 2):
        raise ShapeError(
            f"A loss for each y and x and a step for each point of the path: got {height.shape} "
            f"for {len(down)} x {len(across)}, {way.shape} for {len(steps)} steps."
        )
    powers = np.log10(np.maximum(height, _LEAST))
    colours = scale_colours(powers, False, None, dark)
    surface = dict(
        type="contour",
        x=across,
        y=down,
        z=powers,
        customdata=height,
        ncontours=24,
        line=dict(width=0.5, color=theme.muted(dark)),
        colorscale=colours["colorscale"],
        colorbar=colour_bar(dark, _marks(float(powers.min()), float(powers.max()))),
        hovertemplate="loss <b>%{customdata:.4~g}</b> nats<extra></extra>",
    )
    ink = theme.accent(dark)  # seen on pale and on dark
    line = markers(way[:, 0], way[:, 1], [f"step {step:,}" for step in steps]) | dict(
        mode="lines+markers",
        line=dict(width=2, color=ink),
        marker=dict(size=5, color=theme.paper(dark), line=dict(width=1.5, color=ink), opacity=1),
    )
    end = markers(way[-1:, 0], way[-1:, 1], [f"step {steps[-1]:,}, the end"])
    traces = [surface, line, end | dict(marker=chosen_marker(dark))]
    plain = dict(zeroline=False, fixedrange=True)
    layout = dict(
        xaxis=dict(plain, title=axis_title(x_title)), yaxis=dict(plain, title=axis_title(y_title))
    )
    sides = (56, 12)
    return headed_figure(
        traces, dark, title, [note], _HEIGHT, layout, above=BAR, sides=sides, below=48
    )


def _marks(low: float, high: float) -> dict[SupportsFloat, str]:
    """Return round losses between two powers of ten, by their power.

    >>> list(_marks(-1.2, 1.0).values()), list(_marks(0.0, 0.8).values())
    (['0.1', '1', '10'], ['1', '2', '5'])
    """
    digits = (1, 2, 5) if high - low < 1.5 else (1,)
    round_ones = (
        digit * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for digit in digits
    )
    return {math.log10(n): f"{n:g}" for n in round_ones if low <= math.log10(n) <= high}
