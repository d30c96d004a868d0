"""A small pattern to paint on: every cell shows its weight and answers to a click.

Knows plotly and arrays. Must not know what the weights mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.plots.cells import clickable
from mha_viz.plots.numbers import number_matrix


def paintable(weights: Any, title: str, *, dark: bool = False) -> go.Figure:
    """A square of weights in [0, 1]; a click gives (query, key).

    Raises:
        ShapeError: not a matrix.
    """
    figure = number_matrix(
        weights, title, _numbered(len(weights)), _numbered(len(weights)), diverging=False,
        limits=(0.0, 1.0), dark=dark,
    )  # fmt: skip
    numbers = np.asarray(figure.data[0].z)
    rows, columns = (axis.ravel() for axis in np.indices(numbers.shape))
    figure.add_scatter(
        **clickable(
            rows, columns, np.stack([rows, columns], -1), numbers.ravel(),
            "query %{y} → key %{x}<br>weight <b>%{marker.color:.4~g}</b><extra></extra>",
        ),
        showlegend=False,
    )  # fmt: skip
    # The nearest cell answers, however wide it is drawn.
    return figure.update_layout(hoverdistance=-1, hovermode="closest", dragmode=False, width=None)


def _numbered(n: int) -> list[str]:
    return [str(i) for i in range(n)]
