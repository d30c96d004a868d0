"""A figure for the last row of a class: the same, in larger type."""

from __future__ import annotations

import re
from typing import Any

import plotly.graph_objects as go

_SMALL = re.compile(r"font-size:(\d+)px")


def larger(figure: go.Figure, factor: float = 1.3) -> go.Figure:
    """A copy whose fonts, and the room around the picture, are that many times as large.

    >>> larger(go.Figure(layout=dict(font=dict(size=10))), 1.5).layout.font.size
    15.0
    """
    # not by the figure's own to_dict, which makes text of its arrays
    traces = [_grown(trace.to_plotly_json(), factor, in_font=False) for trace in figure.data]
    layout = _grown(figure.layout.to_plotly_json(), factor, in_font=False)
    for name, pixels in layout.get("margin", {}).items():
        if name in "lrtb":
            layout["margin"][name] = pixels * factor
    for name in ("width", "height"):
        if layout.get(name):
            layout[name] = layout[name] * factor
    return go.Figure(dict(data=traces, layout=layout))


def _grown(part: Any, factor: float, in_font: bool) -> Any:
    if isinstance(part, dict):
        return {
            key: value * factor
            if in_font and key == "size" and isinstance(value, int | float)
            else _grown(value, factor, in_font or key.endswith("font"))
            for key, value in part.items()
        }
    if isinstance(part, list | tuple):
        return [_grown(value, factor, in_font) for value in part]
    if isinstance(part, str):
        return _SMALL.sub(lambda found: f"font-size:{int(found[1]) * factor:.0f}px", part)
    return part
