"""The arithmetic of a layer: arrows in a plane, and a layer as a whole."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.frame import Part
from mha_viz.plots.heatmap import Pooled
from mha_viz.web import theme
from mha_viz.web.labels import clean_all, hover_text, plotly_text

_SHAFT: Part = dict(
    **dict(ax=0, ay=0, xref="x", yref="y", axref="x", ayref="y", text="", showarrow=True),
    **dict(arrowhead=2, arrowsize=1, arrowwidth=2.5),
)
_STEP, _GAP = 1.2, 0.8  # from head to head, and between blocks, in sides of a head's square
_HEAD, _BLOCK = 64, 256  # rows and columns up to which a head and a block are not pooled


def arrows(
    vectors: Any,
    names: Sequence[str],
    *,
    title: str,
    chosen: int | None = None,
    circle: bool = False,
    dark: bool = False,
) -> go.Figure:
    """Draw vectors (vector, 2) as arrows in the plane, both axes with the same unit.

    Through the tip of the `chosen` vector x goes a dotted line at a right angle: on the line y.x =
    x.x, beyond it y.x is larger. `circle` adds a circle of its length.
    """
    tips = frame.as_numbers(vectors, 2, "vectors")
    if tips.shape[1] != 2 or not np.isfinite(tips).all():
        raise ShapeError(f"vectors must be (vector, 2) and finite; got {tips.shape}.")
    labels = [plotly_text(name) for name in clean_all(names, len(tips), "vectors")]
    reach = 1.2 * max(float(np.hypot(*tips.T).max()), 1e-6)
    if chosen is not None and not 0 <= chosen < len(tips):
        raise ArgumentError(f"There is no vector {chosen} among {len(tips)}.")
    traces: list[Part] = []
    shapes: list[Part] = []
    shafts: list[Part] = []
    if chosen is not None and (length := float(np.hypot(*tips[chosen]))):
        # without a length there is no direction, and no right angle to it
        traces.append(_line(tips[chosen], labels[chosen], reach, dark))
        if circle:
            look = dict(type="circle", line=dict(width=1.5, color=theme.muted(dark)))
            shapes.append(frame.rectangle((-length, -length), (length, length), **look))
    for i, ((x, y), label) in enumerate(zip(tips.tolist(), labels, strict=True)):
        colour = theme.accent(dark) if i == chosen else theme.qualitative(dark)[0]
        shafts.append(dict(_SHAFT, x=x, y=y, arrowcolor=colour))
        across, down, size = map(theme.format_number, (x, y, np.hypot(x, y)))
        hover = f"{label}<br>({across}, {down})<br>length <b>{size}</b>"
        font = dict(size=14, color=theme.ink(dark))
        look = dict(mode="markers+text", marker=dict(size=9, color=colour), textfont=font)
        name = dict(text=[label], textposition=_text_position(x, y))
        traces.append(frame.markers([x], [y], hover) | look | name)
    axis = dict(range=[-reach, reach], fixedrange=True, zeroline=True, nticks=7, constrain="domain")
    layout = dict(shapes=shapes, annotations=shafts, xaxis=axis, yaxis=axis | dict(scaleanchor="x"))
    border = frame.Border(above=4, left_side=36, right_side=10, below=30)
    return frame.headed_figure(traces, dark, title, [], 396, layout, border)


def _text_position(x: float, y: float) -> str:
    """Return the side beyond the tip: there a name is clear of its arrow and of the dotted line."""
    sides = ["middle right", "top right", "top center", "top left"]
    sides += ["middle left", "bottom left", "bottom center", "bottom right"]
    return sides[round(math.atan2(y, x) / (math.pi / 4)) % 8]


def _line(tip: np.ndarray, label: str, reach: float, dark: bool) -> Part:
    """Return a line through the tip, at a right angle to its arrow."""
    along = np.array([-tip[1], tip[0]]) / np.hypot(*tip) * 4 * reach
    ends = np.stack([tip - along, tip + along])
    hover = f"beyond this line {label} gives more weight than to itself"
    dotted = dict(width=2, dash="dot", color=theme.accent(dark))
    return frame.markers(ends[:, 0], ends[:, 1], hover) | dict(mode="lines", line=dotted)


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
    traces: list[Part] = []
    marks: list[Part] = []
    x = 0.0

    def block(title: str, shape: str, width: float) -> None:
        """Name what was drawn from x on, and go on behind it."""
        nonlocal x
        if x:
            marks.append(frame.annotation("→", x - _GAP / 2, height / 2, theme.muted(dark), 18))
        for text, y, anchor in ((title, 1, "bottom"), (shape, 0, "top")):
            position = dict(yref="paper", yanchor=anchor)
            text = plotly_text(text).replace("\n", "<br>")
            marks.append(frame.annotation(text, x + width / 2, y, theme.ink(dark), 12, **position))
        x += width + _GAP

    for i, (title, numbers) in enumerate(blocks):
        traces.append(_matrix(title, numbers, (x, 0.0, height, height), True, dark))
        block(title, " × ".join(map(str, numbers.shape)), height)
        if i == 0:
            for head, pattern in enumerate(patterns):
                box = (x + head % columns * _STEP, head // columns * _STEP, 1.0, 1.0)
                traces.append(_matrix(f"H{head}", pattern, box, False, dark))
            x_chosen, top = x + chosen % columns * _STEP, chosen // columns * _STEP
            shape = " × ".join(map(str, patterns.shape[1:]))
            block(f"{n_heads} heads", f"weights, each {shape}", wide)
    x -= _GAP
    layout = dict(
        shapes=[frame.framed((x_chosen, top), (x_chosen + 1, top + 1), 2, dark)],
        annotations=marks,
        xaxis=dict(frame.HIDDEN, range=[-0.05, x + 0.05]),
        yaxis=dict(frame.HIDDEN, range=[height + 0.05, -0.05]),
        meta=dict(height_by_width=[height / x, 64]),
    )
    border = frame.Border(above=24, left_side=4, right_side=4, below=28)
    return frame.headed_figure(traces, dark, "", [], 900 * height / x, layout, border)


def _matrix(
    name: str,
    numbers: Float[Tensor, "row column"],
    box: tuple[float, float, float, float],
    diverging: bool,
    dark: bool,
) -> Part:
    """Return the cells of a matrix that fill a box (x, y, width, height)."""
    values = frame.as_numbers(numbers, 2, name)
    values = Pooled.of(values, _BLOCK if diverging else _HEAD).take(values)
    # A few columns of a trained model are far larger than all others, which would look empty.
    top = float(np.nanquantile(np.abs(values), 0.98)) if diverging else 1.0
    limits = (-top, top) if diverging else (0.0, 1.0)
    look = cells.scale_colours(values, diverging, limits, dark) | dict(showscale=False)
    (x, y, width, height), (rows, columns) = box, values.shape
    hover = f"{hover_text(name)}<br><b>{theme.hover('z')}</b><extra></extra>"
    lattice = dict(x0=x + width / columns / 2, dx=width / columns)
    lattice |= dict(y0=y + height / rows / 2, dy=height / rows)
    return cells.heatmap_cells(values, 1.0, look, hover) | lattice
