"""How one score comes about: a query, a key, and the products whose sum the score is."""

from __future__ import annotations

from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.frame import build_figure
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text


def score_products(
    query: Float[np.ndarray | Tensor, " d_head"],
    key: Float[np.ndarray | Tensor, " d_head"],
    scale: SupportsFloat,
    *,
    weight: SupportsFloat | None = None,
    query_label: str = "query",
    key_label: str = "key",
    dark: bool = False,
) -> go.Figure:
    """Query and key as strips, their products as bars: score = scale * sum_d query_d key_d.

    Args:
        query: (d_head,), as the scores saw it.
        key: (d_head,), likewise.
        scale: what the sum is multiplied by, often 1 / sqrt(d_head).
        weight: the attention weight that the softmax made of the score, where known.
        query_label: the token that asks.
        key_label: the token that is looked at.
        dark: colours for a dark page.

    Raises:
        ShapeError: vectors of different lengths, or not vectors.
        ArgumentError: NaN or infinity.
    """
    q, k = (np.asarray(vector, dtype=np.float64) for vector in (query, key))
    if q.ndim != 1 or q.shape != k.shape or not len(q):
        raise ShapeError(f"query and key must be vectors of one length: {q.shape}, {k.shape}.")
    products = q * k
    if not np.isfinite(products).all():
        raise ArgumentError("query and key must be finite.")
    colours = theme.diverging(dark)
    strips = [
        _strip(vector, name, axis, colours)
        for vector, name, axis in ((q, query_label, "y"), (k, key_label, "y2"))
    ]
    bars = dict(
        type="bar",
        y=products,
        customdata=np.arange(len(q)),
        xaxis="x",
        yaxis="y3",
        marker=dict(color=[colours[-2] if p >= 0 else colours[1] for p in products]),
        hovertemplate="dimension %{customdata}<br>product <b>%{y:.4~g}</b><extra></extra>",
    )
    total = dict(
        text=_sum_text(float(products.sum()), float(scale), weight),
        x=0,
        y=1,
        xref="paper",
        yref="paper",
        xanchor="left",
        yanchor="bottom",
        yshift=10,
        showarrow=False,
        align="left",
        font=dict(size=14),
    )
    layout = dict(
        height=346,
        margin=dict(l=8, r=8, t=64, b=34),
        annotations=[total],
        showlegend=False,
        bargap=0.15,
        hovermode="closest",
        **_axes(len(q), dark),
    )
    return build_figure([*strips, bars], dark, layout)


def _strip(
    values: NDArray[np.float64], name: str, axis: str, colours: tuple[str, ...]
) -> dict[str, Any]:
    reach = float(np.abs(values).max()) or 1.0
    return dict(
        type="heatmap",
        z=values[None, :].astype(np.float32),
        y=[plotly_text(clean(name))],
        customdata=np.arange(len(values))[None],
        xaxis="x",
        yaxis=axis,
        zmin=-reach,
        zmax=reach,
        showscale=False,
        xgap=1 if len(values) <= 128 else 0,
        colorscale=theme.stops(colours),
        hovertemplate="%{y}, dimension %{customdata}: <b>%{z:.4~g}</b><extra></extra>",
    )


def _axes(size: int, dark: bool) -> dict[str, Any]:
    quiet = dict(
        showgrid=False, zeroline=False, showline=False, ticks="", automargin=True, type="category"
    )
    return dict(
        xaxis=dict(
            range=[-0.5, size - 0.5],
            showgrid=False,
            zeroline=False,
            showticklabels=False,
            ticks="",
            showline=False,
            anchor="y3",
            title=dict(text=f"{size} dimensions of the head", font=dict(size=12)),
        ),
        yaxis=dict(quiet, domain=[0.86, 1.0]),
        yaxis2=dict(quiet, domain=[0.68, 0.82]),
        yaxis3=dict(
            domain=[0.0, 0.62],
            gridcolor=theme.gridline(dark),
            zerolinecolor=theme.muted(dark),
            automargin=True,
            title=dict(text="product", font=dict(size=12)),
            nticks=5,
        ),
    )


def _sum_text(total: float, scale: float, weight: SupportsFloat | None) -> str:
    """In two lines, because a phone cuts off what is longer."""
    number = theme.format_number
    text = f"sum <b>{number(total)}</b> × {number(scale)} = score <b>{number(total * scale)}</b>"
    if weight is not None:
        text += f"<br>→ softmax → weight <b>{theme.format_weight(weight)}</b>"
    return text
