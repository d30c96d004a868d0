"""Lines over a number: what is measured as something grows, with bands, levels and moments.

Knows plotly and arrays. Must not know what the numbers mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import theme
from mha_viz.plots.frame import DASHES, SYMBOLS, as_numbers, heading, legend, quantity
from mha_viz.plots.labels import clean, plotly_text

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
    dark: bool = False,
) -> go.Figure:
    """Some lines; colour, dash and marker tell them apart, hover tells exact numbers.

    Args:
        lines: (x (point,), y (point,)) by name; a y that is not finite leaves a gap.
        title: what is drawn, `note` a smaller line below it; x_title, y_title with units.
        bands: (low (point,), high (point,)) around the line of the same name.
        levels: dotted horizontal lines by name. moments: dotted vertical ones.
        x_axis, y_axis: "log" leaves out what is not above 0.

    Raises:
        ArgumentError: no line. ShapeError: x and y, or a band, of different lengths.
    """
    if not lines:
        raise ArgumentError("There is no line to draw.")
    figure = go.Figure()
    for i, (name, given) in enumerate(lines.items()):
        x, y = (as_numbers(values, 1, name) for values in given)
        if x.shape != y.shape:
            raise ShapeError(f"{name}: {len(x)} places, but {len(y)} values.")
        colour, label = theme.qualitative(dark)[i % 8], plotly_text(clean(name, 60))
        if bands and name in bands:
            _add_band(figure, x, bands[name], name, colour)
        few = len(x) <= _MARKED
        figure.add_scatter(
            x=x, y=y, name=label, mode="lines+markers" if few else "lines", hoverinfo="text",
            line=dict(width=2, color=colour, dash=DASHES[i % len(DASHES)]),
            marker=dict(size=7, symbol=SYMBOLS[i % len(SYMBOLS)]),
            hovertext=[
                f"{label}<br>{plotly_text(x_title)}: {quantity(a, '')}<br><b>{quantity(b, '')}</b>"
                for a, b in zip(x, y, strict=True)
            ],
        )  # fmt: skip
    ink, muted = theme.ink(dark), theme.muted(dark)
    for name, level in (levels or {}).items():
        figure.add_hline(
            y=level, line=dict(width=1.5, dash="dot", color=ink),
            annotation=dict(
                text=plotly_text(name), font=dict(size=12, color=muted), y=_place(level, y_axis)
            ),
        )  # fmt: skip
    for name, moment in (moments or {}).items():
        figure.add_vline(
            x=moment, line=dict(width=1.5, dash="dot", color=ink),
            annotation=dict(
                text=plotly_text(name), font=dict(size=12, color=muted), x=_place(moment, x_axis)
            ),
        )  # fmt: skip
    top, space = heading(title, [note], dark)
    layout, rows = theme.layout(dark), -(-len(lines) // 2)
    below = 56 + (24 * rows if len(lines) > 1 else 0)
    small = dict(font=dict(size=12), standoff=6)
    figure.update_layout(
        **layout | dict(
            title=top, height=height, showlegend=len(lines) > 1, legend=legend(dark),
            margin=dict(l=56, r=14, t=space + 8, b=below),
            xaxis=layout["xaxis"] | dict(
                title=small | dict(text=plotly_text(x_title)), type=x_axis, zeroline=False,
                showline=True, ticks="outside", ticklen=4, fixedrange=True,
            ),
            yaxis=layout["yaxis"] | dict(
                title=small | dict(text=plotly_text(y_title)), type=y_axis, zeroline=False,
                fixedrange=True,
            ),
        )
    )  # fmt: skip
    return figure


def _place(value: float, axis: Axis) -> float:
    """Where an annotation stands: unlike lines, plotly wants it in powers of ten there."""
    return math.log10(value) if axis == "log" and value > 0 else value


def _add_band(figure: go.Figure, x: Any, band: tuple[Any, Any], name: str, colour: str) -> None:
    low, high = (as_numbers(values, 1, f"band of {name}") for values in band)
    if not len(low) == len(high) == len(x):
        raise ShapeError(f"{name}: {len(x)} places, but a band of {len(low)} and {len(high)}.")
    known = np.isfinite(low) & np.isfinite(high)
    red, green, blue = theme.rgb(colour)
    figure.add_scatter(
        x=np.concatenate([x[known], x[known][::-1]]),
        y=np.concatenate([high[known], low[known][::-1]]), fill="toself", mode="lines",
        line=dict(width=0), fillcolor=f"rgba({red},{green},{blue},0.2)", hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
