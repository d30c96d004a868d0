"""Loss against the share of heads left, and the distribution of changes over draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.frame import (
    annotation,
    as_numbers,
    headed_figure,
    keep_on_click,
    markers,
    merged,
    missing_note,
    quantity,
    series_look,
    value_axis,
    with_unit,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

QUANTILES = (0.05, 0.5, 0.95)  # of the draws, that are marked
UNIT = "nats per token"  # of the loss
_DRAWS = 0.2  # how far the draws reach below the histogram, in heights of it
_OPACITY = 0.5


def pruning_curves(
    curves: Mapping[str, tuple[Any, Any]],
    band: tuple[Any, Any, Any] | None,
    unpruned: SupportsFloat,
    *,
    title: str,
    band_name: str = "at random",
    dark: bool = False,
) -> go.Figure:
    """Draw loss against the share of heads left, all of them at the left; random as a band.

    `curves` are (share_left (point,), loss (point,)) by name, `band` is (share_left, low, high) of
    random pruning. A dotted line is the loss with all heads, `unpruned`. All losses are in nats per
    token. Points that are not defined (NaN) leave gaps.
    """
    if not curves and band is None:
        raise ArgumentError("There is no curve to draw.")
    traces: list[dict[str, Any]] = []
    if band is not None:
        traces += _band(_points(band, band_name), band_name, dark)
    level = float(unpruned)
    traces.append(
        dict(
            x=np.linspace(1, 0, 21),
            y=[level] * 21,
            mode="lines",
            hoverinfo="text",
            line=dict(width=1.5, dash="dot", color=theme.ink(dark)),
            name=f"all heads: {quantity(level, '')}",
            hovertext=f"all heads: <b>{quantity(level, UNIT)}</b>",
        )
    )
    for i, (name, given) in enumerate(curves.items()):
        share, loss = _points(given, name)
        label = plotly_text(clean(name, 40))
        few = len(share) <= 40
        traces.append(
            dict(
                x=share,
                y=loss,
                name=label,
                mode="lines+markers" if few else "lines",
                **merged(series_look(i, 7, dark), dict(line=dict(width=2.2))),
                connectgaps=False,
                hoverinfo="text",
                hovertext=[
                    f"{label}<br>{100 * s:.4g} % of heads left<br>loss <b>{quantity(v, UNIT)}</b>"
                    for s, v in zip(share.tolist(), loss.tolist(), strict=True)
                ],
            )
        )
    layout = dict(
        legend=dict(traceorder="normal"),
        xaxis=value_axis("heads left")
        | dict(range=[1.02, -0.02], tickformat=".0%", nticks=6, zeroline=False, fixedrange=True),
        yaxis=value_axis(with_unit("loss", UNIT)) | dict(zeroline=False, fixedrange=True),
    )
    return headed_figure(traces, dark, title, [], 340 + 16 * len(traces), layout, named=True)


def _points(given: Sequence[Any], name: str) -> list[NDArray[np.float64]]:
    """Return arrays of one length, from all heads left to the fewest."""
    arrays = [as_numbers(values, 1, f"{clean(name, 40)} (point)") for values in given]
    if len({len(values) for values in arrays}) != 1:
        sizes = [len(values) for values in arrays]
        raise ShapeError(f"{clean(name, 40)}: as many shares as losses, but got {sizes}.")
    order = np.argsort(-arrays[0], kind="stable")
    return [values[order] for values in arrays]


def _band(points: list[NDArray[np.float64]], name: str, dark: bool) -> list[dict[str, Any]]:
    share, low, high = points
    red, green, blue = theme.rgb(theme.muted(dark))
    label = plotly_text(clean(name, 60))
    hovers = [
        f"{label}<br>{100 * s:.4g} % of heads left<br>"
        f"<b>{quantity(a, '')}</b> to <b>{quantity(b, UNIT)}</b>"
        for s, a, b in zip(share.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    edge = dict(
        x=share,
        mode="lines",
        line=dict(width=0.8, color=theme.muted(dark)),
        name=label,
        hovertext=hovers,
        hoverinfo="text",
    )
    filled = dict(fill="tonexty", fillcolor=f"rgba({red},{green},{blue},0.22)")
    return [edge | dict(y=low, showlegend=False), edge | dict(y=high) | filled]


def change_distribution(
    values: Num[np.ndarray | Tensor, " draw"],
    title: str,
    unit: str,
    *,
    heads: Sequence[tuple[int, int]] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw how a change (draw,) is spread: a histogram, every draw below it, quantiles as lines.

    Hover tells how many draws a bar holds and the exact value of each draw. `heads` are the (layer,
    head) that each draw switched off: named on hover, and customdata of the draws.
    """
    numbers = as_numbers(values, 1, "values (draw)")
    if heads is not None and len(heads) != len(numbers):
        raise ShapeError(f"There are {len(numbers)} draws, but {len(heads)} heads were given.")
    known = np.isfinite(numbers)
    if not known.any():
        raise ArgumentError("No draw has a value, so there is nothing to draw.")
    bars, most = _histogram(numbers[known], unit, dark)
    marked = [(share, float(np.quantile(numbers[known], share))) for share in QUANTILES]
    traces = [bars, _draws(numbers, heads, most, unit, dark)]
    traces += [_quantile(*pair, most, dark) for pair in marked]
    above = float((numbers[known] > 0).mean())
    notes = [
        ", ".join(f"{_name(share)} {theme.format_number(value)}" for share, value in marked) + ".",
        f"{int(known.sum()):,} draws, {100 * above:.3g} % above 0.",
    ]
    notes.append(missing_note(int((~known).sum()), len(numbers), "draws"))
    layout = dict(
        bargap=0,
        xaxis=value_axis(with_unit("change", unit)) | dict(fixedrange=True),
        yaxis=value_axis("draws")
        | dict(
            range=[-_DRAWS * most, 1.04 * most],
            tickvals=_counts(most),
            zeroline=False,
            fixedrange=True,
        ),
        annotations=[_name_above(i, *pair, dark) for i, pair in enumerate(marked)],
    )
    return headed_figure(traces, dark, title, notes, 300, layout, above=34, sides=(8, 14))


def _histogram(known: NDArray[np.float64], unit: str, dark: bool) -> tuple[dict[str, Any], int]:
    """Return bars of equal width with exact counts, and the largest count."""
    bins = int(np.clip(np.ceil(2 * len(known) ** (1 / 3)), 1, 40))  # Rice's rule
    counts, edges = np.histogram(known, bins if np.ptp(known) else 1)
    ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True))
    bars = dict(
        type="bar",
        x=(edges[:-1] + edges[1:]) / 2,
        y=counts,
        width=np.diff(edges),
        hoverinfo="text",
        hovertext=[
            f"{quantity(a, '')} to {quantity(b, unit)}<br><b>{count:,}</b> of {len(known):,} draws"
            for a, b, count in ends
        ],
        marker=dict(
            color=theme.qualitative(dark)[0],
            opacity=0.75,
            line=dict(width=1, color=theme.paper(dark)),
        ),
    )
    return bars, int(counts.max())


def _draws(
    values: NDArray[np.float64],
    heads: Sequence[tuple[int, int]] | None,
    most: int,
    unit: str,
    dark: bool,
) -> dict[str, Any]:
    """Return every draw as a short upright stroke below the bars."""
    at = np.flatnonzero(np.isfinite(values)).tolist()
    names = [f"draw {i}" if heads is None else f"{head_name(*heads[i])} off" for i in at]
    more: dict[str, Any] = {}
    if heads is not None:
        more = dict(customdata=[[int(layer), int(head)] for layer, head in (heads[i] for i in at)])
    hovers = [
        f"{name}<br><b>{quantity(float(values[i]), unit)}</b>"
        for i, name in zip(at, names, strict=True)
    ]
    stroke = dict(symbol="line-ns-open", size=16, color=theme.muted(dark), line=dict(width=1.5))
    more |= dict(marker=dict(stroke, opacity=_OPACITY), **keep_on_click(_OPACITY))
    return markers(values[at], np.full(len(at), -_DRAWS * most / 2), hovers, **more)


def _quantile(share: float, value: float, most: int, dark: bool) -> dict[str, Any]:
    dash = "solid" if share == 0.5 else "dash"
    return dict(
        x=[value] * 12,
        y=np.linspace(-_DRAWS * most, most, 12),
        mode="lines",
        line=dict(width=2, color=theme.accent(dark), dash=dash),
        hoverinfo="text",
        hovertext=f"{_name(share)} of the draws: <b>{theme.format_number(value)}</b>",
    )


def _name_above(i: int, share: float, value: float, dark: bool) -> dict[str, Any]:
    """Return a quantile's name over its line; every second one is higher up."""
    side = "right" if share < 0.5 else "left"
    place = dict(yref="paper", yanchor="bottom", xanchor=side, yshift=13 * (i % 2))
    return annotation(_name(share), value, 1, theme.accent(dark), 11, **place)


def _name(share: float) -> str:
    return "median" if share == 0.5 else f"{100 * share:.4g} %"


def _counts(most: int) -> list[int]:
    """Return a few whole numbers from 0 to the largest count: below 0 there is nothing to count."""
    step = max(1, round(most / 4))
    if step > 10:
        step = 5 * round(step / 5)
    return list(range(0, most + 1, step))
