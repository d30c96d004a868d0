"""Vectors of a plane as arrows from the origin, and the line beyond which other vectors win."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.frame import as_numbers, headed_figure
from mha_viz.web import theme
from mha_viz.web.labels import clean_all, plotly_text


def arrows(
    vectors: Any,
    names: Sequence[str],
    *,
    title: str,
    chosen: int | None = None,
    circle: bool = False,
    dark: bool = False,
) -> go.Figure:
    """Arrows in the plane, both axes with the same unit.

    Args:
        vectors: (vector, 2), all finite.
        names: one per vector; any text.
        title: plain text above the picture.
        chosen: the index of a vector x, through whose tip a dotted line is drawn at a right angle:
            on the line y.x = x.x, beyond it y.x is larger.
        circle: whether a circle of the chosen length is drawn, too.
        dark: colours for a dark page.

    Raises:
        ShapeError: vectors that are not of the plane, or have no place in it; too few names.
        ArgumentError: a chosen vector that does not exist.
    """
    tips = as_numbers(vectors, 2, "vectors")
    if tips.shape[1] != 2 or not np.isfinite(tips).all():
        raise ShapeError(f"vectors must be (vector, 2) and finite; got {tips.shape}.")
    labels = [plotly_text(name) for name in clean_all(names, len(tips), "vectors")]
    reach = 1.2 * max(float(np.hypot(*tips.T).max()), 1e-6)
    if chosen is not None and not 0 <= chosen < len(tips):
        raise ArgumentError(f"There is no vector {chosen} among {len(tips)}.")
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    shafts: list[dict[str, Any]] = []
    if chosen is not None and (length := float(np.hypot(*tips[chosen]))):
        # without a length there is no direction, and no right angle to it
        traces.append(_line(tips[chosen], labels[chosen], reach, dark))
        shapes += [_circle(length, dark)] if circle else []
    for i, ((x, y), label) in enumerate(zip(tips.tolist(), labels, strict=True)):
        colour = theme.accent(dark) if i == chosen else theme.qualitative(dark)[0]
        shafts.append(
            dict(
                x=x,
                y=y,
                ax=0,
                ay=0,
                xref="x",
                yref="y",
                axref="x",
                ayref="y",
                text="",
                showarrow=True,
                arrowhead=2,
                arrowsize=1,
                arrowwidth=2.5,
                arrowcolor=colour,
            )
        )
        traces.append(
            dict(
                x=[x],
                y=[y],
                mode="markers+text",
                text=[label],
                textposition=_beside(x, y),
                textfont=dict(size=14, color=theme.ink(dark)),
                marker=dict(size=9, color=colour),
                hoverinfo="text",
                hovertext=f"{label}<br>({theme.format_number(x)}, {theme.format_number(y)})<br>"
                f"length <b>{theme.format_number(np.hypot(x, y))}</b>",
            )
        )
    axis = dict(range=[-reach, reach], fixedrange=True, zeroline=True, nticks=7, constrain="domain")
    layout = dict(shapes=shapes, annotations=shafts, xaxis=axis, yaxis=axis | dict(scaleanchor="x"))
    return headed_figure(traces, dark, title, [], 396, layout, above=4, sides=(36, 10), below=30)


def _beside(x: float, y: float) -> str:
    """Where a name stands clear of its arrow."""
    if abs(y) > abs(x):
        return "top center" if y > 0 else "bottom center"
    return "middle right" if x > 0 else "middle left"


def _line(tip: np.ndarray, label: str, reach: float, dark: bool) -> dict[str, Any]:
    """Through the tip, at a right angle to its arrow."""
    along = np.array([-tip[1], tip[0]]) / np.hypot(*tip) * 4 * reach
    ends = np.stack([tip - along, tip + along])
    return dict(
        x=ends[:, 0],
        y=ends[:, 1],
        mode="lines",
        hoverinfo="text",
        hovertext=f"beyond this line {label} gives more weight than to itself",
        line=dict(width=2, dash="dot", color=theme.accent(dark)),
    )


def _circle(radius: float, dark: bool) -> dict[str, Any]:
    return dict(
        type="circle",
        x0=-radius,
        x1=radius,
        y0=-radius,
        y1=radius,
        line=dict(width=1.5, color=theme.muted(dark)),
    )
