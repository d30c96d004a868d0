"""How much heads matter: a map of all heads, and two measures against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    build_figure,
    check_head,
    chosen_marker,
    heading,
    missing_note,
    stays,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

Interval = tuple[Any, Any]  # two (layer, head): the lower and the upper end
_OPACITY = 0.65


def importance_map(
    values: Num[NDArray | Tensor, "layer head"],  # type: ignore[type-arg]
    title: str,
    unit: str,
    *,
    low: Num[NDArray | Tensor, "layer head"] | None = None,  # type: ignore[type-arg]
    high: Num[NDArray | Tensor, "layer head"] | None = None,  # type: ignore[type-arg]
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """A row per layer, a column per head, coloured by importance; hover tells the 95 % interval.

    From 0 up on a sequential scale; where a head is below 0 (the model does better without it),
    on a diverging scale around 0. Heads without a value (NaN) are grey and hatched. An invisible
    point in each cell makes clicks readable: customdata is [layer, head].

    Args:
        values: (layer, head), any quantity.
        title, unit: what it is, and what it is counted in.
        low, high: (layer, head), the ends of each head's 95 % interval, both or neither; NaN: not
            defined (one text has no interval), which hover says.
        selected: (layer, head) of the chosen head, framed.

    Raises:
        ShapeError: arrays that are not (layer, head), or of different shapes.
        ArgumentError: a head that does not exist, or only one end of the intervals.
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
    x: Num[NDArray | Tensor, "layer head"],  # type: ignore[type-arg]
    y: Num[NDArray | Tensor, "layer head"],  # type: ignore[type-arg]
    x_title: str,
    y_title: str,
    *,
    x_interval: Interval | None = None,
    y_interval: Interval | None = None,
    title: str = "",
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Every head as a dot in two measures.

    Below the title stand Spearman's rank correlation and the number of heads; no p-value, since
    heads of one model are not independent draws. Heads that lack a number (NaN) are left out and
    counted. Hover names the head and both numbers; customdata is [layer, head].

    Args:
        x, y: (layer, head), two measures of each head.
        x_title, y_title: what is measured, with its unit; any text.
        x_interval, y_interval: (low, high) of each head's interval, drawn as thin bars.
        selected: (layer, head) of the chosen head.

    Raises:
        ShapeError: arrays that are not (layer, head), or of different shapes.
        ArgumentError: a head that does not exist.
    """
    across = as_numbers(x, 2, "x (layer, head)")
    down = _like(y, across, "y")
    known = np.isfinite(across) & np.isfinite(down)
    intervals = [
        None if pair is None else [_like(end, across, "an interval's end") for end in pair]
        for pair in (x_interval, y_interval)
    ]
    titles = (clean(x_title, 60), clean(y_title, 60))
    dots = dict(
        **_dots(known, across, down, intervals, titles),
        **stays(_OPACITY),
        marker=dict(size=8, color=theme.qualitative(dark)[0], opacity=_OPACITY),
        **_bars(known, across, down, intervals, dark),
    )
    traces = [dots]
    if selected is not None:
        layer, head = check_head(selected, *across.shape)
        chosen = np.zeros_like(known)
        chosen[layer, head] = known[layer, head]
        traces.append(
            dict(
                **_dots(chosen, across, down, intervals, titles),
                **stays(1),
                marker=chosen_marker(dark),
            )
        )
    notes = [_correlation(across[known], down[known])]
    notes.append(missing_note(int((~known).sum()), known.size))
    text, top = heading(title, notes, dark)
    return build_figure(
        traces,
        dark,
        title=text,
        height=top + 400,
        margin=dict(l=8, r=12, t=top + 6, b=8),
        showlegend=False,
        hovermode="closest",
        dragmode="zoom",
        xaxis=_axis(titles[0]),
        yaxis=_axis(titles[1]),
    )


def _dots(
    where: NDArray[np.bool_],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    intervals: Sequence[list[NDArray[np.float64]] | None],
    titles: tuple[str, str],
) -> dict[str, Any]:
    heads = np.argwhere(where).tolist()
    hovers = []
    for layer, head in heads:
        lines = [head_name(layer, head)]
        for values, ends, name in zip((x, y), intervals, titles, strict=True):
            value = theme.format_number(values[layer, head])
            lines.append(f"{plotly_text(name)}: <b>{value}</b>")
            if ends is not None:
                lines.append(_interval(*(float(end[layer, head]) for end in ends)))
        hovers.append("<br>".join(lines))
    return dict(
        x=x[where],
        y=y[where],
        mode="markers",
        customdata=heads,
        hovertext=hovers,
        hoverinfo="text",
    )


def _bars(
    where: NDArray[np.bool_],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    intervals: Sequence[list[NDArray[np.float64]] | None],
    dark: bool,
) -> dict[str, Any]:
    """Intervals as plotly wants them: how far they reach to both sides of a value."""
    red, green, blue = theme.rgb(theme.muted(dark))
    faint = f"rgba({red},{green},{blue},0.3)"
    thin = dict(type="data", symmetric=False, thickness=1, width=0, color=faint)
    bars = {}
    for name, values, ends in zip(("error_x", "error_y"), (x, y), intervals, strict=True):
        if ends is not None:
            below, above = (
                np.maximum(np.nan_to_num(side[where]), 0.0)
                for side in (values - ends[0], ends[1] - values)
            )
            bars[name] = dict(thin, array=above, arrayminus=below)
    return bars


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    """Spearman's rank correlation in words; not defined below two heads, or where one is level."""
    from scipy.stats import spearmanr  # has no stubs

    rho = math.nan
    if len(x) > 1 and np.ptp(x) and np.ptp(y):
        rho = float(spearmanr(x, y).statistic)
    found = f"{rho:.3f}".replace("-", "−") if math.isfinite(rho) else "not defined"
    return f"Spearman’s rank correlation {found}, {len(x):,} heads."


def _axis(title: str) -> dict[str, Any]:
    text = plotly_text(clean(title, 44))
    return dict(
        zeroline=True,
        showline=False,
        nticks=7,
        title=dict(text=text, font=dict(size=12), standoff=6),
    )
