"""One attention layer as a whole: what it reads, its heads side by side, and what they make."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from torch import Tensor

from mha_viz.errors import ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.pooling import Pooled
from mha_viz.web import theme
from mha_viz.web.labels import hover_text, plotly_text

_STEP, _GAP = 1.2, 0.8  # from head to head, and between blocks, in sides of a head's square
_HEAD, _BLOCK = 64, 256  # rows and columns up to which a head and a block are not pooled


def layer_picture(
    blocks: Sequence[tuple[str, Float[Tensor, "_ _"]]],
    patterns: Float[Tensor, "head query key"],
    chosen: int,
    *,
    dark: bool = False,
) -> go.Figure:
    """Draw input, heads, concatenation and output from left to right, each with its shape.

    `blocks` are title and numbers of input, concatenation and output; `patterns`, the weights of
    all heads, stand between the first two, and the head `chosen` is framed.
    """
    if len(blocks) != 3:
        raise ShapeError(f"A layer has an input, a concatenation and an output; got {len(blocks)}.")
    n_heads, down = len(patterns), 2 if len(patterns) <= 16 else 4
    columns, height = -(-n_heads // down), down * _STEP - 0.2
    wide = columns * _STEP - 0.2
    traces: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    x = 0.0

    def block(title: str, shape: str, width: float) -> None:
        """Name what was drawn from x on, and go on behind it."""
        nonlocal x
        if x:
            marks.append(frame.annotation("→", x - _GAP / 2, height / 2, theme.muted(dark), 18))
        for text, y, anchor in ((title, 1, "bottom"), (shape, 0, "top")):
            place = dict(yref="paper", yanchor=anchor)
            text = plotly_text(text).replace("\n", "<br>")
            marks.append(frame.annotation(text, x + width / 2, y, theme.ink(dark), 12, **place))
        x += width + _GAP

    for i, (title, numbers) in enumerate(blocks):
        traces.append(_matrix(title, numbers, (x, 0.0, height, height), True, dark))
        block(title, " × ".join(map(str, numbers.shape)), height)
        if i == 0:
            for head, pattern in enumerate(patterns):
                box = (x + head % columns * _STEP, head // columns * _STEP, 1.0, 1.0)
                traces.append(_matrix(f"H{head}", pattern, box, False, dark))
            left, top = x + chosen % columns * _STEP, chosen // columns * _STEP
            shape = " × ".join(map(str, patterns.shape[1:]))
            block(f"{n_heads} heads", f"weights, each {shape}", wide)
    x -= _GAP
    layout = dict(
        shapes=[frame.framed((left, top), (left + 1, top + 1), 2, dark)],
        annotations=marks,
        xaxis=dict(frame.HIDDEN, range=[-0.05, x + 0.05]),
        yaxis=dict(frame.HIDDEN, range=[height + 0.05, -0.05]),
        meta=dict(height_by_width=[height / x, 64]),
    )
    margins = frame.Margins(above=24, left=4, right=4, below=28)
    return frame.headed_figure(traces, dark, "", [], 900 * height / x, layout, margins)


def _matrix(
    name: str,
    numbers: Float[Tensor, "row column"],
    box: tuple[float, float, float, float],
    diverging: bool,
    dark: bool,
) -> dict[str, Any]:
    """Return the cells of a matrix that fill a box (x, y, width, height)."""
    values = frame.as_numbers(numbers, 2, name)
    values = Pooled.of(values, _BLOCK if diverging else _HEAD).take(values)
    # A few columns of a trained model are far larger than all others, which would look empty.
    top = float(np.nanquantile(np.abs(values), 0.98)) if diverging else 1.0
    limits = (-top, top) if diverging else (0.0, 1.0)
    look = cells.scale_colours(values, diverging, limits, dark) | dict(showscale=False)
    (x, y, width, height), (rows, columns) = box, values.shape
    hover = f"{hover_text(name)}<br><b>%{{z:.3~g}}</b><extra></extra>"
    place = dict(x0=x + width / columns / 2, dx=width / columns)
    place |= dict(y0=y + height / rows / 2, dy=height / rows)
    return cells.heatmap_cells(values, 1.0, look, hover) | place
