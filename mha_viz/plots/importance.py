"""Importance of heads: a map of all heads, and two measures against each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.difference import head_changes
from mha_viz.plots.frame import (
    as_numbers,
    check_head,
    chosen_marker,
    headed_figure,
    keep_on_click,
    markers,
    missing_note,
    rank_correlation,
    value_axis,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

_OPACITY = 0.65


def importance_map(
    values: Num[np.ndarray | Tensor, "layer head"],
    title: str,
    unit: str,
    *,
    low: Num[np.ndarray | Tensor, "layer head"] | None = None,
    high: Num[np.ndarray | Tensor, "layer head"] | None = None,
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw heads (layer, head) coloured by importance; hover tells the 95 % interval.

    From 0 up on a sequential scale; where a head is below 0 (the model does better without it), on
    a diverging scale around 0. An invisible point in each cell makes clicks readable: customdata is
    [layer, head]. Either both ends of the intervals are given or neither; NaN is not defined (one
    text has no interval), which hover says.
    """
    numbers = as_numbers(values, 2, "values (layer, head)")
    if (low is None) != (high is None):
        raise ArgumentError("An interval has two ends: pass both low and high, or neither.")
    ends = [_like(end, numbers, "an interval's end") for end in (low, high) if end is not None]
    signed = bool(np.nanmin(numbers, initial=0.0) < 0)
    asides = None
    if ends:
        asides = [[_interval(*pair) for pair in row] for row in np.stack(ends, axis=-1).tolist()]
    return head_changes(
        numbers, title, unit, diverging=signed, selected=selected, asides=asides, dark=dark
    )


def _like(values: Any, numbers: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    other = as_numbers(values, 2, f"{name} (layer, head)")
    if other.shape != numbers.shape:
        raise ShapeError(f"{name} must have shape {numbers.shape}; got {other.shape}.")
    return other


def _interval(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "95 % interval not defined"
    return f"95 % interval {theme.format_number(low)} to {theme.format_number(high)}"


def head_scatter(
    x: Num[np.ndarray | Tensor, "layer head"],
    y: Num[np.ndarray | Tensor, "layer head"],
    x_title: str,
    y_title: str,
    *,
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw every head (layer, head) as a dot in two measures.

    Above the picture stand Spearman's rank correlation and the number of heads; no p-value, since
    heads of one model are not independent draws. Hover names the head and both numbers; customdata
    is [layer, head].
    """
    across = as_numbers(x, 2, "x (layer, head)")
    down = _like(y, across, "y")
    known = np.isfinite(across) & np.isfinite(down)
    titles = (clean(x_title, 60), clean(y_title, 60))
    dots = dict(
        **_dots(known, across, down, titles),
        **keep_on_click(_OPACITY),
        marker=dict(size=8, color=theme.qualitative(dark)[0], opacity=_OPACITY),
    )
    traces = [dots]
    if selected is not None:
        layer, head = check_head(selected, *across.shape)
        chosen = np.zeros_like(known)
        chosen[layer, head] = known[layer, head]
        mark = dict(**keep_on_click(1), marker=chosen_marker(dark))
        traces.append(_dots(chosen, across, down, titles) | mark)
    notes = [
        rank_correlation(across[known], down[known], "heads"),
        missing_note(int((~known).sum()), known.size),
    ]
    layout = dict(xaxis=value_axis(titles[0]), yaxis=value_axis(titles[1]))
    return headed_figure(traces, dark, "", notes, 394, layout, above=6, drag="zoom")


def _dots(
    where: NDArray[np.bool_],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    titles: tuple[str, str],
) -> dict[str, Any]:
    heads = np.argwhere(where).tolist()
    hovers = []
    for layer, head in heads:
        lines = [head_name(layer, head)]
        for values, name in zip((x, y), titles, strict=True):
            value = theme.format_number(values[layer, head])
            lines.append(f"{plotly_text(name)}: <b>{value}</b>")
        hovers.append("<br>".join(lines))
    return markers(x[where], y[where], hovers, customdata=heads)
