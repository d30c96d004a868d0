"""Where one head stands among all: a strip of dots for one quantity.

Knows plotly and arrays. Must not know what the quantity means.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import theme
from mha_viz.plots.labels import head_name, plotly_text


def strip(
    values: Num[NDArray | Tensor, "layer head"],  # type: ignore[type-arg]
    selected: tuple[int, int],
    title: str,
    unit: str = "",
    *,
    dark: bool = False,
) -> go.Figure:
    """All heads as dots on one line, the chosen one marked and ranked.

    Dots of one layer share a height (the first layer on top), so that nothing is hidden and a
    trend over layers shows. Heads without a value (NaN) are left out and counted.

    Args:
        values: (layer, head), any quantity.
        selected: (layer, head) of the chosen head.
        title, unit: name of the quantity and what it is counted in ("nats").

    Raises:
        ShapeError: values that are not (layer, head).
        ArgumentError: a head that does not exist.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 2 or not numbers.size:
        raise ShapeError(f"values must be (layer, head), got shape {numbers.shape}.")
    layers, heads = numbers.shape
    layer, head = selected
    if not (0 <= layer < layers and 0 <= head < heads):
        raise ArgumentError(f"There is no {head_name(layer, head)} among {layers} x {heads} heads.")
    known = np.isfinite(numbers)
    rows, columns = np.nonzero(known)
    figure = go.Figure()
    figure.add_scatter(
        x=numbers[known], y=rows, mode="markers",
        text=[head_name(*where) for where in zip(rows.tolist(), columns.tolist(), strict=True)],
        marker=dict(size=7, color=theme.sequential(dark)[5], opacity=0.55),
        hovertemplate="%{text}<br><b>%{x:.4~g}</b> " + plotly_text(unit) + "<extra></extra>",
    )  # fmt: skip
    chosen = float(numbers[layer, head])
    if np.isfinite(chosen):
        figure.add_scatter(
            x=[chosen], y=[layer], mode="markers", hoverinfo="skip",
            marker=dict(
                size=13, color=theme.accent(dark), line=dict(width=2, color=theme.paper(dark))
            ),
        )  # fmt: skip
    missing = int(numbers.size - known.sum())
    line = f"<b>{plotly_text(title)}</b>  {_standing(numbers, chosen, selected, unit)}"
    if missing:
        line += f" · {missing} of {numbers.size} without a value"
    figure.update_layout(
        theme.layout(dark), showlegend=False, hovermode="closest", height=104,
        title=dict(text=line, font=dict(size=13), x=0, xref="container", y=0.97, yanchor="top"),
        margin=dict(l=8, r=8, t=30, b=24),
        xaxis=dict(
            showgrid=False, zeroline=False, showline=True, ticks="outside", ticklen=3, nticks=7
        ),
        yaxis=dict(
            range=[layers - 0.4, -0.6], showgrid=False, zeroline=False, showline=False,
            showticklabels=False, ticks="",
        ),
    )  # fmt: skip
    return figure


def _standing(
    numbers: NDArray[np.float64], chosen: float, selected: tuple[int, int], unit: str
) -> str:
    name = head_name(*selected)
    if not np.isfinite(chosen):
        return f"{name}: not defined"
    known = numbers[np.isfinite(numbers)]
    rank = int((known > chosen).sum()) + 1
    value = f"{theme.format_number(chosen)} {plotly_text(unit)}".strip()
    return f"{name}: {value} · {rank} of {known.size} from the top"
