"""What figures of many heads share: checked numbers, headings, legends and marks."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

# Lines of text that fit a phone 390 pixels wide; plotly does not wrap them.
_TITLE_LETTERS, _NOTE_LETTERS = 42, 54
Limits = tuple[SupportsFloat, SupportsFloat]  # lowest and highest value of an axis or a scale
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = (
    "circle",
    "diamond",
    "square",
    "triangle-up",
    "cross",
    "triangle-down",
    "x",
    "star",
    "hexagon",
    "pentagon",
    "bowtie",
)


def as_numbers(values: Any, axes: int, name: str) -> NDArray[np.float64]:
    """A float64 copy of that many axes, none empty; what is not finite is NaN: not defined.

    Raises:
        ShapeError: another number of axes, or none of something.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    numbers = np.array(values, dtype=np.float64)
    if numbers.ndim != axes or not numbers.size:
        raise ShapeError(f"{name} must have {axes} axes, none empty; got shape {numbers.shape}.")
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def check_head(selected: tuple[int, int], layers: int, heads: int) -> tuple[int, int]:
    """The chosen (layer, head), or an ArgumentError where there is no such head."""
    layer, head = selected
    if not (0 <= layer < layers and 0 <= head < heads):
        raise ArgumentError(f"There is no {head_name(layer, head)} among {layers} x {heads} heads.")
    return layer, head


def check_names(names: Sequence[str], expected: int) -> list[str]:
    """Names of all heads, fit for plotly; their number is checked."""
    if len(names) != expected:
        raise ShapeError(f"There are {expected} heads, but {len(names)} names were given.")
    return [plotly_text(clean(name, 40)) for name in names]


def quantity(value: float, unit: str) -> str:
    """A number with its unit, fit for plotly; "not defined" has none."""
    return (
        f"{theme.format_number(value)} {unit_text(unit)}".strip()
        if value == value
        else ("not defined")
    )


def unit_text(unit: str) -> str:
    return plotly_text(clean(unit, 30)) if unit else ""


def with_unit(title: str, unit: str) -> str:
    return f"{title} ({unit})" if title and unit else title or unit


def heading(title: str, notes: Sequence[str], dark: bool) -> tuple[dict[str, Any], int]:
    """A title with smaller lines below it, wrapped for a phone, and the height that it takes.

    Args:
        title, notes: plain text, never read as markup; empty ones are left out.
    """
    lines = [plotly_text(line) for line in _wrapped(title, _TITLE_LETTERS)]
    small = f'<span style="font-size:12px;color:{theme.muted(dark)}">'
    for note in notes:
        lines += [f"{small}{plotly_text(line)}</span>" for line in _wrapped(note, _NOTE_LETTERS)]
    place = dict(x=0, xref="container", xanchor="left", y=1, yref="container", yanchor="top")
    text = dict(
        text="<br>".join(lines),
        font=dict(size=15, color=theme.ink(dark)),
        pad=dict(t=8 if len(lines) < 2 else 19, l=4),  # plotly draws several lines higher up
        **place,
    )
    return text, 14 + 20 * len(lines) if lines else 10


def _wrapped(text: str, letters: int) -> list[str]:
    return textwrap.wrap(clean(text, 400), letters) if text else []


def legend(dark: bool) -> dict[str, Any]:
    """Below the picture, in as many lines as it needs."""
    return dict(
        orientation="h",
        x=0,
        xanchor="left",
        y=0,
        yref="container",
        yanchor="bottom",
        font=dict(size=12, color=theme.ink(dark)),
        bgcolor="rgba(0,0,0,0)",
        itemwidth=30,
        itemclick=False,
        itemdoubleclick=False,
    )


def build_figure(traces: Sequence[dict[str, Any]], dark: bool, **layout: Any) -> go.Figure:
    """A figure with the theme's layout, and `layout` over it; in one go: plotly checks each step.

    Args:
        traces: with their type; a scatter needs none.
    """
    typed = [dict(type="scatter") | trace for trace in traces]
    return go.Figure(dict(data=typed, layout=over(theme.layout(dark), layout)))


def over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """What `above` says, also inside of what both have, and else what `below` says.

    >>> over(dict(height=300, xaxis=dict(nticks=5)), dict(xaxis=dict(type="log")))
    {'height': 300, 'xaxis': {'nticks': 5, 'type': 'log'}}
    """
    both = {
        key: over(below[key], above[key])
        for key in below.keys() & above.keys()
        if isinstance(below[key], dict) and isinstance(above[key], dict)
    }
    return {**below, **above, **both}


def layer_axis(layers: int) -> dict[str, Any]:
    """The x axis of figures over layers: every layer has a tick as long as they fit a phone."""
    return dict(
        range=[-0.6, layers - 0.4],
        tickmode="linear",
        tick0=0,
        dtick=-(-layers // 16),
        showgrid=False,
        zeroline=False,
        showline=True,
        ticks="outside",
        ticklen=4,
        title=dict(text="layer", font=dict(size=12), standoff=6),
        fixedrange=True,
    )


def chosen_marker(dark: bool, size: int = 13) -> dict[str, Any]:
    """What the chosen head looks like everywhere."""
    edge = dict(width=2, color=theme.paper(dark))
    return dict(size=size, color=theme.accent(dark), line=edge, opacity=1)


def stays(opacity: SupportsFloat) -> dict[str, Any]:
    """Keeps points as they are when one is clicked: the page draws its own mark."""
    still = dict(marker=dict(opacity=float(opacity)))
    return dict(selected=still, unselected=still)


def missing_note(missing: int, total: int, what: str = "heads") -> str:
    """What is left out, in words; empty where nothing is."""
    return f"{missing:,} of {total:,} {what} without a value, left out." if missing else ""
