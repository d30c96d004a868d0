"""One head as a plotly heatmap: queries down, keys across, exact weights on hover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.plots import cells
from mha_viz.plots.frame import build_figure, labelled_head, merged, where_visible
from mha_viz.web import theme
from mha_viz.web.labels import plotly_text
from mha_viz.web.standalone import figure_html

_TITLE, _BAR = 32, 40  # heights above the labels, in pixels
_LETTERS = 16  # of a label beside the axis; hover shows all of it
# Names of the columns stand above the cells, slanted.
_SQUARE = cells.SQUARE | dict(xaxis2=dict(side="top", tickangle=-60))


def head_heatmap(
    pattern: Float[np.ndarray | Tensor, "query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    title: str = "",
    scale: str = "sqrt",
    dark: bool = False,
    side: int = 620,
    width: int | None = None,
    visible: Bool[np.ndarray | Tensor, "query key"] | None = None,
) -> go.Figure:
    """Draw a heatmap of one head's weights (query, key) with tokens on both axes.

    The chart holds the weights as they are (float32, about 5.4 bytes a cell on the wire): the curve
    of the scale ("sqrt", "linear" or "log") lies in the colours, and the colour bar names true
    weights at the places that the scale gives them. `width` is how wide the chart will be drawn,
    where that is known and narrow (a phone): it always stretches, but only a known width thins out
    labels that would overlap. Cells whose keys are not `visible` to a query are grey and named
    masked.
    """
    weights, query_names, key_names = labelled_head(pattern, query_labels, key_labels)
    queries, keys = weights.shape
    cell = min(max(side / max(queries, keys), 1.0), 64.0)
    shown = min(cell, max(width - 110, 60) / keys) if width else cell
    across, down = (
        cells.fitting_ticks(names, shown, letters=_LETTERS, largest=12.5)
        for names in (key_names, query_names)
    )
    colours = dict(zmin=0.0, zmax=1.0, showscale=False, colorscale=theme.colorscale(scale, dark))
    hover = dict(
        hovertemplate="%{y} → %{x}<br>weight <b>%{z:.4~g}</b><extra></extra>", hoverongaps=False
    )
    shown_weights = where_visible(weights, visible, np.nan)
    masked = np.isnan(shown_weights)
    above = _TITLE * bool(title)
    top = above + _BAR
    layout = dict(
        title=dict(
            text=plotly_text(title),
            font=dict(size=15, color=theme.ink(dark)),
            x=0,
            xref="container",
            y=1,
            yref="container",
            yanchor="top",
            pad=dict(t=6, l=4),
        ),
        height=round(cell * queries + 6.3 * cells.longest_label(across) + 10 + top + 12),
        margin=dict(l=8, r=12 + _overhang(across, keys, shown), t=top, b=12),
        hovermode="closest",
        dragmode="zoom",
        showlegend=False,
    )
    traces = [
        cells.heatmap_cells(shown_weights, cell, colours, hover),
        _colour_bar(scale, dark, above),
    ]
    if masked.any():
        traces += _masked_cells(masked, cell, dark)
        layout |= _masked_legend(dark, (above + 4) / layout["height"])
    axes = merged(cells.named_axes(query_names, key_names, down, across), _SQUARE)
    figure = build_figure(traces, dark, layout | axes)
    return cells.with_height_rule(figure, cell, down, (queries, keys))


def head_html(
    pattern: Float[np.ndarray | Tensor, "query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    title: str = "",
    caption: str = "",
    scale: str = "sqrt",
    visible: Bool[np.ndarray | Tensor, "query key"] | None = None,
) -> str:
    """Return one head's `head_heatmap` as one HTML document with plotly's script (about 4.5 MB)."""
    figure = head_heatmap(pattern, query_labels, key_labels, scale=scale, visible=visible)
    return figure_html(figure, title=title, caption=caption)


def _masked_cells(masked: NDArray[np.bool_], cell: float, dark: bool) -> list[dict[str, Any]]:
    """Return grey cells that say why they have no weight, and what the legend shows of them."""
    marker = dict(symbol="square", size=11, color=theme.missing(dark))
    swatch = dict(x=[None], y=[None], mode="markers", marker=marker, name="masked")
    return [
        cells.masked(masked, cell, dark),
        swatch | dict(showlegend=True, hoverinfo="skip", xaxis="x2", yaxis="y2"),
    ]


def _masked_legend(dark: bool, below: float) -> dict[str, Any]:
    """Return a legend of masked cells beside the colour bar, `below` of the height from the top."""
    place = dict(x=1, xref="container", xanchor="right", y=1 - below, yref="container")
    font = dict(size=11, color=theme.muted(dark))
    fixed = dict(itemclick=False, itemdoubleclick=False)
    legend = dict(place, **fixed, yanchor="top", font=font, bgcolor="rgba(0,0,0,0)")
    return dict(showlegend=True, legend=legend)


def _overhang(ticks: dict[str, Any], keys: int, cell: float) -> float:
    """Return how far slanted labels of the last columns reach past the right edge."""
    pairs = zip(ticks["tickvals"], ticks["ticktext"], strict=True)
    reach = (3.2 * min(len(text), _LETTERS) - (keys - 1 - place) * cell for place, text in pairs)
    return max(0.0, *reach)


def _colour_bar(scale: str, dark: bool, top: int) -> dict[str, object]:
    """Return an empty trace that carries the colour bar, in places of the scale, not weights."""
    ticks = np.array(theme.ticks(scale), dtype=np.float32)
    places = theme.scale_weights(ticks, scale)
    kept: list[int] = []
    for i, place in enumerate(places):
        if not kept or place - places[kept[-1]] >= 0.08:  # else its number covers the one before
            kept.append(i)
    return dict(
        x=[None],
        y=[None],
        mode="markers",
        hoverinfo="skip",
        showlegend=False,
        xaxis="x2",
        yaxis="y2",
        marker=dict(
            color=[0],
            cmin=0,
            cmax=1,
            showscale=True,
            colorscale=theme.stops(theme.sequential(dark)),
            colorbar=cells.colour_bar(dark, {float(places[i]): f"{ticks[i]:g}" for i in kept})
            | dict(xref="container", xpad=10, y=1, yref="container", yanchor="top", ypad=top + 4),
        ),
    )
