"""One head as a plotly heatmap: queries down, keys across, exact weights on hover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.plots.frame import build_figure
from mha_viz.web import theme
from mha_viz.web.labels import clean_all, plotly_text
from mha_viz.web.payload import as_weights, check_range
from mha_viz.web.standalone import figure_html

_TITLE, _BAR = 32, 40  # heights above the labels, in pixels
_TICK_LABEL = 16  # characters of a label beside the axis; hover shows all of it


def head_heatmap(
    pattern: Float[NDArray | Tensor, "query key"],  # type: ignore[type-arg]
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    title: str = "",
    scale: str = "sqrt",
    dark: bool = False,
    side: int = 620,
    width: int | None = None,
) -> go.Figure:
    """A heatmap of one head with tokens on both axes.

    The chart holds the weights as they are (float32, about 5.4 bytes a cell on the wire): the
    curve of the scale lies in the colours, and the colour bar names true weights at the places
    that the scale gives them.

    Args:
        pattern: (query, key), attention weights in [0, 1].
        query_labels, key_labels: any text, also twice the same; never read as markup.
        scale: "sqrt", "linear" or "log"; changes the colours only.
        side: largest height of the square of cells, in pixels.
        width: how wide the chart will be drawn, where that is known and narrow (a phone); it
            always stretches, but only a known width thins out labels that would overlap.

    Raises:
        ShapeError: labels that do not fit the pattern.
        ArgumentError: numbers that are not weights, an unknown scale.
    """
    weights = as_weights(pattern, 2)
    check_range(weights)
    queries, keys = weights.shape
    query_names = clean_all(query_labels, queries, "queries")
    key_names = clean_all(key_labels, keys, "keys")
    cell = min(max(side / max(queries, keys), 1.0), 64.0)
    shown = min(cell, max(width - 110, 60) / keys) if width else cell
    cells = dict(
        type="heatmap",
        z=weights,
        zmin=0.0,
        zmax=1.0,
        showscale=False,
        colorscale=theme.colorscale(scale, dark),
        xgap=_gap(cell),
        ygap=_gap(cell),
        hovertemplate="%{y} → %{x}<br>weight <b>%{z:.4~g}</b><extra></extra>",
    )
    across, down = _ticks(key_names, shown), _ticks(query_names, shown)
    top = _TITLE * bool(title) + _BAR
    labels = 6.3 * max(len(str(text)) for text in across["ticktext"]) + 10
    return build_figure(
        [cells, _colour_bar(scale, dark, _TITLE * bool(title))],
        dark,
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
        height=round(cell * queries + labels + top + 12),
        margin=dict(l=8, r=12 + _overhang(across, keys, shown), t=top, b=12),
        hovermode="closest",
        dragmode="zoom",
        showlegend=False,
        **_axes(query_names, key_names, down, across, shown),
    )


def head_html(
    pattern: Float[NDArray | Tensor, "query key"],  # type: ignore[type-arg]
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    title: str = "",
    caption: str = "",
    scale: str = "sqrt",
    dark: bool = False,
) -> str:
    """One head's heatmap as one HTML document with plotly's script in it (about 4.5 MB)."""
    figure = head_heatmap(pattern, query_labels, key_labels, scale=scale, dark=dark)
    return figure_html(figure, title=title, caption=caption, dark=dark)


def _overhang(ticks: dict[str, list[Any]], keys: int, cell: float) -> float:
    """How far slanted labels of the last columns reach past the right edge."""
    pairs = zip(ticks["tickvals"], ticks["ticktext"], strict=True)
    reach = (
        3.2 * min(len(str(text)), _TICK_LABEL) - (keys - 1 - place) * cell for place, text in pairs
    )
    return max(0.0, *reach)


def _gap(cell: float) -> float:
    """Hairlines between cells, only where cells are large enough to spare them."""
    return 1.0 if cell >= 12 else 0.0


def _colour_bar(scale: str, dark: bool, top: int) -> dict[str, object]:
    """A trace without points that carries the colour bar, in places of the scale, not weights."""
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
        xaxis="x2",
        yaxis="y2",
        marker=dict(
            color=[0],
            cmin=0,
            cmax=1,
            showscale=True,
            colorscale=[[i / 10, colour] for i, colour in enumerate(theme.sequential(dark))],
            colorbar=dict(
                tickvals=[float(places[i]) for i in kept],
                ticktext=[f"{ticks[i]:g}" for i in kept],
                orientation="h",
                thickness=9,
                outlinewidth=0,
                len=210,
                lenmode="pixels",
                x=0,
                xref="container",
                xanchor="left",
                xpad=10,
                y=1,
                yref="container",
                yanchor="top",
                ypad=top + 4,
                ticks="outside",
                ticklen=3,
                tickcolor=theme.muted(dark),
                tickfont=dict(size=11, color=theme.muted(dark)),
                ticklabelposition="outside bottom",
            ),
        ),
    )


def _ticks(names: list[str], cell: float) -> dict[str, list[Any]]:
    """Places and texts of the labels that fit: every one, or every second, fifth ..."""
    size = _font(cell)
    step = max(1, math.ceil((size + 1.5) / cell))
    places: list[Any] = list(range(0, len(names), step))
    texts = [_short(names[i]) for i in places]
    return {"tickvals": places, "ticktext": [plotly_text(text) for text in texts]}


def _short(name: str) -> str:
    return name if len(name) <= _TICK_LABEL else name[: _TICK_LABEL - 1] + "…"


def _font(cell: float) -> float:
    return min(12.5, max(9.0, cell * 0.72))


def _axes(
    query_names: list[str],
    key_names: list[str],
    down: dict[str, list[Any]],
    across: dict[str, list[Any]],
    cell: float,
) -> dict[str, object]:
    """Two pairs of axes in the same place.

    x and y belong to the heatmap and know every token, which is what hover reads; their labels
    are not drawn. x2 and y2 draw only the labels that fit. Numbers, not categories, are what lies
    on them: plotly would merge two tokens of the same text.
    """
    quiet = dict(showgrid=False, zeroline=False, showline=False, ticks="")
    shown = dict(
        quiet,
        showticklabels=True,
        tickfont=dict(size=_font(cell)),
        tickmode="array",
        automargin=True,
        ticklabeloverflow="allow",
    )
    every = dict(quiet, showticklabels=False, tickmode="array")
    rows, columns = len(query_names), len(key_names)
    return dict(
        xaxis=dict(
            every,
            tickvals=list(range(columns)),
            ticktext=[plotly_text(t) for t in key_names],
            range=[-0.5, columns - 0.5],
            constrain="domain",
            constraintoward="left",
        ),
        yaxis=dict(
            every,
            tickvals=list(range(rows)),
            ticktext=[plotly_text(t) for t in query_names],
            range=[rows - 0.5, -0.5],
            scaleanchor="x",
            constrain="domain",
            constraintoward="top",
        ),
        xaxis2=dict(shown, **across, overlaying="x", matches="x", side="top", tickangle=-60),
        yaxis2=dict(shown, **down, overlaying="y", matches="y", side="left"),
    )
