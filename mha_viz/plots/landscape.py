"""A plane through a loss: height as colour, the way that training took as a line on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ShapeError
from mha_viz.plots.cells import BAR, colour_bar, colours_of
from mha_viz.plots.frame import as_numbers, axis_title, chosen_marker, headed_figure
from mha_viz.web import theme

_LEAST = 1e-6  # nats: what is smaller has no place on a logarithmic scale
_HEIGHT = 420


def landscape(
    x: Num[np.ndarray | Tensor, " across"],
    y: Num[np.ndarray | Tensor, " down"],
    loss: Num[np.ndarray | Tensor, "down across"],
    path: Num[np.ndarray | Tensor, "point 2"],
    steps: Sequence[int],
    *,
    title: str,
    x_title: str,
    y_title: str,
    note: str = "",
    dark: bool = False,
) -> go.Figure:
    """Lines of equal loss on a plane, and a path over it.

    Args:
        x: places along the first direction.
        y: places along the second one.
        loss: nats, above 0; coloured by its logarithm.
        path: where each step lies on the plane; the last one is marked.
        steps: what each point of the path is called.
        title: above the figure.
        x_title: what the lower axis is.
        y_title: what the left axis is.
        note: a smaller line below the title.
        dark: colours for a dark page.

    Raises:
        ShapeError: sizes that do not fit each other.
    """
    across, down = as_numbers(x, 1, "x"), as_numbers(y, 1, "y")
    height, way = as_numbers(loss, 2, "loss"), as_numbers(path, 2, "path")
    if height.shape != (len(down), len(across)) or way.shape != (len(steps), 2):
        raise ShapeError(
            f"A loss for each y and x and a step for each point of the path: got {height.shape} "
            f"for {len(down)} x {len(across)}, {way.shape} for {len(steps)} steps."
        )
    powers = np.log10(np.maximum(height, _LEAST))
    colours = colours_of(powers, False, None, dark)
    surface = dict(
        type="contour",
        x=across,
        y=down,
        z=powers,
        customdata=height,
        ncontours=24,
        line=dict(width=0.5, color=theme.muted(dark)),
        colorscale=colours["colorscale"],
        colorbar=colour_bar(dark, _marks(float(powers.min()), float(powers.max()))),
        hovertemplate="loss <b>%{customdata:.4~g}</b> nats<extra></extra>",
    )
    ink = theme.accent(dark)  # seen on pale and on dark
    line = dict(
        x=way[:, 0],
        y=way[:, 1],
        mode="lines+markers",
        line=dict(width=2, color=ink),
        marker=dict(size=5, color=theme.paper(dark), line=dict(width=1.5, color=ink), opacity=1),
        hoverinfo="text",
        hovertext=[f"step {step:,}" for step in steps],
    )
    end = dict(
        x=way[-1:, 0],
        y=way[-1:, 1],
        mode="markers",
        marker=chosen_marker(dark),
        hoverinfo="text",
        hovertext=[f"step {steps[-1]:,}, the end"],
    )
    layout = dict(
        xaxis=dict(title=axis_title(x_title), zeroline=False, fixedrange=True),
        yaxis=dict(title=axis_title(y_title), zeroline=False, fixedrange=True),
    )
    return headed_figure(
        [surface, line, end],
        dark,
        title,
        [note],
        _HEIGHT,
        layout,
        above=BAR,
        sides=(56, 12),
        below=48,
    )


def _marks(low: float, high: float) -> dict[SupportsFloat, str]:
    """Round losses between two powers of ten, by their power.

    >>> list(_marks(-1.2, 1.0).values()), list(_marks(0.0, 0.8).values())
    (['0.1', '1', '10'], ['1', '2', '5'])
    """
    digits = (1, 2, 5) if high - low < 1.5 else (1,)
    round_ones = (
        digit * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for digit in digits
    )
    return {math.log10(n): f"{n:g}" for n in round_ones if low <= math.log10(n) <= high}
