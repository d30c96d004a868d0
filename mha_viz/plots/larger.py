"""The same figure in larger type, for the last row of a class."""

from __future__ import annotations

import re
from typing import Any

import plotly.graph_objects as go

FACTOR = 1.3
_SMALL = re.compile(r"font-size:(\d+)px")


def larger(figure: go.Figure) -> go.Figure:
    """A copy whose fonts, and the room around the picture, are `FACTOR` times as large.

    >>> larger(go.Figure(layout=dict(font=dict(size=10)))).layout.font.size
    13.0
    """
    # not with the figure's own to_dict, which turns its arrays into text
    traces = [_grown(trace.to_plotly_json(), in_font=False) for trace in figure.data]
    layout = _grown(figure.layout.to_plotly_json(), in_font=False)
    for name, pixels in layout.get("margin", {}).items():
        if name in "lrtb":
            layout["margin"][name] = pixels * FACTOR
    for name in ("width", "height"):
        if layout.get(name):
            layout[name] = layout[name] * FACTOR
    return go.Figure(dict(data=traces, layout=layout))


def _grown(part: Any, in_font: bool) -> Any:
    if isinstance(part, dict):
        return {
            key: value * FACTOR
            if in_font and key == "size" and isinstance(value, int | float)
            else _grown(value, in_font or key.endswith("font"))
            for key, value in part.items()
        }
    if isinstance(part, list | tuple):
        return [_grown(value, in_font) for value in part]
    if isinstance(part, str):
        return _SMALL.sub(lambda found: f"font-size:{int(found[1]) * FACTOR:.0f}px", part)
    return part
