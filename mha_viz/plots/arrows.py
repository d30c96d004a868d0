"""Vectors of a plane as arrows from the origin, and the line behind which others win.

Knows plotly and arrays. Must not know what the vectors are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import theme
from mha_viz.plots.frame import as_numbers, heading
from mha_viz.plots.labels import clean_all, plotly_text


def arrows(
    vectors: Any,
    names: Sequence[str],
    *,
    title: str,
    chosen: int | None = None,
    circle: bool = False,
    note: str = "",
    height: int = 400,
    dark: bool = False,
) -> go.Figure:
    """Arrows in the plane, both axes with the same unit.

    Args:
        vectors: (vector, 2), all finite. names: one for each; any text.
        chosen: a vector x with a dotted line through its tip, at a right angle to it: on the line
            y.x = x.x, beyond it y.x is larger.
        circle: whether a circle of the chosen length is drawn, too.

    Raises:
        ShapeError: vectors that are not of the plane, or have no place in it; too few names.
        ArgumentError: a chosen vector that does not exist.
    """
    tips = as_numbers(vectors, 2, "vectors")
    if tips.shape[1] != 2 or not np.isfinite(tips).all():
        raise ShapeError(f"vectors must be (vector, 2) and finite; got {tips.shape}.")
    labels = [plotly_text(name) for name in clean_all(names, len(tips), "vectors")]
    reach = 1.2 * max(float(np.hypot(*tips.T).max()), 1e-6)
    figure = go.Figure()
    if chosen is not None:
        if not 0 <= chosen < len(tips):
            raise ArgumentError(f"There is no vector {chosen} among {len(tips)}.")
        _add_line(figure, tips[chosen], labels[chosen], reach, circle, dark)
    for i, ((x, y), label) in enumerate(zip(tips.tolist(), labels, strict=True)):
        colour = theme.accent(dark) if i == chosen else theme.qualitative(dark)[0]
        figure.add_annotation(
            x=x, y=y, ax=0, ay=0, xref="x", yref="y", axref="x", ayref="y", text="",
            showarrow=True, arrowhead=2, arrowsize=1, arrowwidth=2.5, arrowcolor=colour,
        )  # fmt: skip
        figure.add_scatter(
            x=[x], y=[y], mode="markers+text", text=[label],
            textposition=_beside(x, y), textfont=dict(size=14, color=theme.ink(dark)),
            marker=dict(size=9, color=colour), hoverinfo="text",
            hovertext=f"{label}<br>({theme.format_number(x)}, {theme.format_number(y)})<br>"
            f"length <b>{theme.format_number(np.hypot(x, y))}</b>",
        )  # fmt: skip
    top, space = heading(title, [note], dark)
    layout = theme.layout(dark)
    axis = dict(range=[-reach, reach], fixedrange=True, zeroline=True, nticks=7)
    figure.update_layout(
        **layout | dict(
            title=top, height=height + space, showlegend=False, dragmode=False,
            margin=dict(l=36, r=10, t=space + 4, b=30),
            xaxis=layout["xaxis"] | axis | dict(constrain="domain"),
            yaxis=layout["yaxis"] | axis | dict(scaleanchor="x", constrain="domain"),
        )
    )  # fmt: skip
    return figure


def _beside(x: float, y: float) -> str:
    """Where a name stands clear of its arrow."""
    if abs(y) > abs(x):
        return "top center" if y > 0 else "bottom center"
    return "middle right" if x > 0 else "middle left"


def _add_line(
    figure: go.Figure, tip: np.ndarray, label: str, reach: float, circle: bool, dark: bool
) -> None:
    length = float(np.hypot(*tip))
    if not length:
        return  # no direction, no right angle to it
    along = np.array([-tip[1], tip[0]]) / length * 4 * reach
    ends = np.stack([tip - along, tip + along])
    figure.add_scatter(
        x=ends[:, 0], y=ends[:, 1], mode="lines", hoverinfo="text",
        hovertext=f"beyond this line {label} gives more weight than to itself",
        line=dict(width=2, dash="dot", color=theme.accent(dark)),
    )  # fmt: skip
    if circle:
        figure.add_shape(
            type="circle", x0=-length, x1=length, y0=-length, y1=length,
            line=dict(width=1.5, color=theme.muted(dark)),
        )  # fmt: skip
