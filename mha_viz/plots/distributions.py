"""Distributions of a number over many texts: bars for one head, quantiles for all heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Int, Num
from numpy.typing import NDArray

from mha_viz.core.reprs import count
from mha_viz.errors import ShapeError
from mha_viz.plots.frame import (
    as_numbers,
    axis_title,
    check_head,
    chosen_marker,
    headed_figure,
    keep_on_click,
    markers,
    missing_note,
    named_axis,
    quantity,
    value_axis,
    with_unit,
)
from mha_viz.web import theme
from mha_viz.web.labels import head_name

_HEIGHT = 260  # of the picture below its heading, in pixels
_NAMED = 6  # limits of bins that are named below
_QUANTILES = 5


def histogram_bars(
    limits: Num[np.ndarray, " limit"],
    counts: Int[np.ndarray, " bin"],
    title: str,
    unit: str,
    *,
    dark: bool = False,
) -> go.Figure:
    """Draw how many texts lie in each bin: bars of one width, whatever their limits.

    `limits` ascend, one more than bins. Empty bins before the first filled one and behind the last
    are left out.
    """
    ends, numbers = np.asarray(limits, float), np.asarray(counts)
    filled = np.flatnonzero(numbers)
    if len(ends) != len(numbers) + 1 or not filled.size:
        raise ShapeError(f"{len(numbers)} bins need as many limits and one, and something in them.")
    first, last = int(filled[0]), int(filled[-1]) + 1
    ends, numbers = ends[first : last + 1], numbers[first:last]
    named = np.unique(np.linspace(0, len(numbers), min(_NAMED, len(ends))).round().astype(int))
    bars = dict(
        type="bar",
        x=np.arange(len(numbers)) + 0.5,
        y=numbers,
        width=1,
        marker=dict(color=theme.qualitative(dark)[0], line=dict(width=1, color=theme.paper(dark))),
        hovertext=[
            f"{quantity(low, '')} to {quantity(high, unit)}<br><b>{count(n, 'text')}</b>"
            for low, high, n in zip(ends[:-1], ends[1:], numbers.tolist(), strict=True)
        ],
        hoverinfo="text",
        textposition="none",
    )
    limits_named = [f"{ends[place]:.3g}" for place in named]
    across = named_axis(named.tolist(), limits_named, (-0.2, len(numbers) + 0.2), tickangle=0)
    across |= dict(title=axis_title(with_unit(title, unit)))
    layout = dict(xaxis=across, yaxis=value_axis("texts") | dict(rangemode="tozero"), bargap=0)
    notes = [f"{count(int(numbers.sum()), 'text')}."]
    return headed_figure([bars], dark, title, notes, _HEIGHT, layout, below=46)


def head_quantiles(
    quantiles: Num[np.ndarray, "quantile layer head"],
    title: str,
    unit: str,
    *,
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw every head's spread over texts: its median, half of the texts thick, nine of ten thin.

    `quantiles` (5, layer, head) are those of 5, 25, 50, 75 and 95 %. Heads stand in their order,
    those of a layer together. customdata of the medians is [layer, head].
    """
    spread = as_numbers(quantiles, 3, "quantiles (5, layer, head)")
    if len(spread) != _QUANTILES:
        raise ShapeError(f"quantiles must be {_QUANTILES} of each head, got {len(spread)}.")
    _, layers, heads = spread.shape
    places = np.arange(layers * heads).reshape(layers, heads) + 0.6 * np.arange(layers)[:, None]
    known = np.isfinite(spread[2])
    colour = theme.qualitative(dark)[0]
    traces = [
        _stems(places[known], spread[0][known], spread[4][known], dict(width=1, color=colour)),
        _stems(places[known], spread[1][known], spread[3][known], dict(width=5, color=colour)),
        _medians(places, spread, known, unit) | keep_on_click(1) | dict(marker=_dot(dark)),
    ]
    if selected is not None:
        layer, head = check_head(selected, layers, heads)
        chosen = np.zeros_like(known)
        chosen[layer, head] = known[layer, head]
        mark = chosen_marker(dark, size=10)
        traces.append(_medians(places, spread, chosen, unit) | keep_on_click(1) | dict(marker=mark))
    step = -(-layers // 16)
    middles, names = places.mean(1)[::step].tolist(), [f"L{i}" for i in range(0, layers, step)]
    across = named_axis(middles, names, (-1, float(places.max()) + 1), tickangle=0)
    layout = dict(xaxis=across, yaxis=value_axis(with_unit(title, unit)))
    notes = [
        "Dot: median. Thick: half of the texts. Thin: 90 %.",
        missing_note(int((~known).sum()), known.size),
    ]
    return headed_figure(traces, dark, title, notes, _HEIGHT, layout, below=30)


def _stems(
    x: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], line: Any
) -> dict[str, Any]:
    """Return a vertical line from low to high for each head, all of them one trace."""
    gap = np.full(len(x), np.nan)
    ends = np.c_[low, high, gap].ravel()
    return dict(x=np.repeat(x, 3), y=ends, mode="lines", line=line, hoverinfo="skip")


def _medians(
    places: NDArray[np.float64], spread: NDArray[np.float64], where: NDArray[np.bool_], unit: str
) -> dict[str, Any]:
    heads = np.argwhere(where).tolist()
    hovers = [
        f"{head_name(layer, head)}<br>median <b>{quantity(mid, unit)}</b><br>"
        f"half of the texts {quantity(lower, '')} to {quantity(upper, '')}<br>"
        f"nine of ten {quantity(low, '')} to {quantity(high, '')}"
        for (layer, head), (low, lower, mid, upper, high) in zip(
            heads, spread[:, where].T.tolist(), strict=True
        )
    ]
    return markers(places[where], spread[2][where], hovers, customdata=heads)


def _dot(dark: bool) -> dict[str, Any]:
    edge = dict(width=1.5, color=theme.qualitative(dark)[0])
    return dict(size=7, color=theme.paper(dark), line=edge, opacity=1)
