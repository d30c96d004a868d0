"""Lines over a number: what is measured as something grows, with bands, levels and moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.frame import (
    DASHES,
    SYMBOLS,
    as_numbers,
    build_figure,
    heading,
    legend,
    over,
    quantity,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

_MARKED = 40  # points up to which each has a marker
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
    """Some lines; colour, dash and marker tell them apart, hover tells exact numbers.

    Args:
        lines: (x (point,), y (point,)) by name; a y that is not finite leaves a gap.
        title: what is drawn.
        x_title: of the axis, with its unit.
        y_title: of the axis, with its unit.
        bands: (low (point,), high (point,)) around the line of the same name.
        levels: dotted horizontal lines by name.
        moments: dotted vertical lines by name.
        note: a smaller line below the title.
        x_axis: "log" leaves out what is not above 0.
        y_axis: likewise.
        height: of the whole figure, in pixels.
        more: plotly's layout over that of the figure: {"xaxis": ticks([1, 2, 4])}.
        dark: colours for a dark page.

    Raises:
        ArgumentError: no line. ShapeError: x and y, or a band, of different lengths.
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
    small = dict(font=dict(size=12), standoff=6)
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
        xaxis=dict(
            title=small | dict(text=plotly_text(x_title)),
            type=x_axis,
            zeroline=False,
            showline=True,
            ticks="outside",
            ticklen=4,
            fixedrange=True,
        ),
        yaxis=dict(
            title=small | dict(text=plotly_text(y_title)),
            type=y_axis,
            zeroline=False,
            fixedrange=True,
            exponentformat="power" if y_axis == "log" else None,
        ),
    )
    return build_figure(traces, dark, over(layout, more or {}))


def ticks(places: Sequence[int]) -> dict[str, Any]:
    """An axis with these places named, and no others."""
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
        line=dict(width=2, color=theme.qualitative(dark)[i % 8], dash=DASHES[i % len(DASHES)]),
        marker=dict(size=7, symbol=SYMBOLS[i % len(SYMBOLS)]),
        hovertext=[
            f"{label}<br>{plotly_text(x_title)}: {quantity(a, '')}<br><b>{quantity(b, '')}</b>"
            for a, b in zip(x, y, strict=True)
        ],
    )


def _level(name: str, y: float, axis: Axis, dark: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A line from left to right, and its name above its end."""
    shape = dict(type="line", xref="paper", x0=0, x1=1, y0=y, y1=y, line=_dotted(dark))
    text = dict(xref="paper", x=1, y=_place(y, axis), xanchor="right", yanchor="bottom")
    return shape, text | _named(name, dark)


def _moment(name: str, x: float, axis: Axis, dark: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A line from bottom to top, and its name beside its upper end."""
    shape = dict(type="line", yref="paper", y0=0, y1=1, x0=x, x1=x, line=_dotted(dark))
    text = dict(yref="paper", y=1, x=_place(x, axis), xanchor="left", yanchor="top")
    return shape, text | _named(name, dark)


def _dotted(dark: bool) -> dict[str, Any]:
    return dict(width=1.5, dash="dot", color=theme.ink(dark))


def _named(name: str, dark: bool) -> dict[str, Any]:
    return dict(
        text=plotly_text(name), showarrow=False, font=dict(size=12, color=theme.muted(dark))
    )


def _place(value: float, axis: Axis) -> float:
    """Where an annotation stands: unlike for lines, plotly wants the exponent of ten there."""
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
