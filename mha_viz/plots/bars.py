"""One number for each token, by one or more ways of getting it, as bars in the text's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num

from mha_viz.errors import ShapeError
from mha_viz.plots.frame import build_figure, legend
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, hover_text, plotly_text

_NAMED = 60  # tokens up to which each has its name below


def token_bars(
    series: Mapping[str, Num[np.ndarray, " token"]],
    labels: Sequence[str],
    unit: str = "",
    *,
    dark: bool = False,
) -> go.Figure:
    """A group of bars per token, one for each series.

    Args:
        series: name -> (token,); NaN leaves a gap.
        labels: one per token; any text, also twice the same.
        unit: what the numbers are counted in, beside the axis.
        dark: colours for a dark page.

    Raises:
        ShapeError: a series that does not have one number per token, or none at all.
    """
    n = len(labels)
    if not series or any(np.shape(values) != (n,) for values in series.values()):
        raise ShapeError(f"each series must have {n} numbers, one per token.")
    names = clean_all(labels, n, "tokens")
    traces: list[dict[str, Any]] = []
    for i, (name, values) in enumerate(series.items()):
        traces.append(
            dict(
                type="bar",
                x=np.arange(n),
                y=np.asarray(values, dtype=np.float32),
                name=plotly_text(clean(name)),
                customdata=[hover_text(label) for label in names],
                marker=dict(
                    color=theme.qualitative(dark)[i % 8], pattern=dict(shape=["", "/"][i % 2])
                ),
                hovertemplate=f"{hover_text(clean(name))}<br>%{{customdata}} (%{{x}}): "
                "<b>%{y:.4~g}</b><extra></extra>",
            )
        )
    step = max(1, -(-n // _NAMED))
    return build_figure(
        traces,
        dark,
        dict(
            barmode="group",
            bargap=0.25,
            height=330,
            hovermode="closest",
            margin=dict(l=8, r=8, t=12, b=46),
            legend=legend(dark),
            xaxis=dict(
                tickvals=list(range(0, n, step)),
                ticktext=[plotly_text(name) for name in names[::step]],
                tickangle=-60,
                showgrid=False,
                zeroline=False,
                range=[-0.7, n - 0.3],
            ),
            yaxis=dict(title=dict(text=plotly_text(unit), font=dict(size=12)), rangemode="tozero"),
        ),
    )
