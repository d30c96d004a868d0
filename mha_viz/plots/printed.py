"""Pictures of heads for print, as wide as a column or a page: heatmap, lines, grid beside head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.plots.frame import as_weights, labelled_head, where_visible
from mha_viz.plots.static import (
    MASKED_WEIGHT,
    Tiles,
    add_colour_bar,
    canvas,
    draw_cells,
    finish,
    label_axes,
    name_heads,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS_MM = (85, 175)  # of a column and of a page
_MM_PER_INCH = 25.4
_LETTER = 0.065  # inches of a letter of the labels
_BAR = 0.75  # inches of the colour bar and its numbers
_CAPTION = 0.85  # inches of title and caption
_ROW = 0.16  # inches of a token beside the lines
_STEPS = 24  # points of a curve
_MAX_LINES = 20_000

Labels = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class PrintOptions:
    """The width, format, texts and colour scale of a picture for print.

    Title and caption are drawn and kept in the file's metadata.

    Raises:
        ArgumentError: a width outside of 20 to 500 mm.
    """

    width_mm: int | float
    file_format: str = "pdf"
    title: str = ""
    caption: str = ""
    scale: str = "sqrt"

    def __post_init__(self) -> None:
        if not 20 <= self.width_mm <= 500:
            raise ArgumentError(f"Expected a width of 20 to 500 mm, got {self.width_mm:g}.")

    @property
    def inches(self) -> float:
        """The width in inches."""
        return self.width_mm / _MM_PER_INCH

    def save(self, figure: Figure) -> bytes:
        """Return a figure as a file; ArgumentError for another format than png, svg or pdf."""
        return finish(figure, self.file_format, self.title, self.caption)


def printed_head(
    pattern: Float[np.ndarray | Tensor, "query key"],
    labels: Labels,
    options: PrintOptions,
    *,
    visible: Bool[np.ndarray | Tensor, "query key"] | None = None,
) -> bytes:
    """Return one head's weights (query, key); cells whose keys are not `visible` are grey."""
    weights, rows, columns = labelled_head(pattern, labels)
    width = options.inches
    cell = (width - _longest(rows) - _BAR - 0.3) / weights.shape[1]
    height = cell * weights.shape[0] + _longest(columns) + _CAPTION + 0.3
    with canvas(width, height) as figure:
        axes = figure.add_subplot()
        shown = where_visible(weights, visible, MASKED_WEIGHT)
        draw_cells(axes, shown, options.scale)
        axes.set_aspect("equal")
        label_axes(axes, rows, columns, max(cell, 0.01))
        add_colour_bar(figure, axes, options.scale, bool((shown < 0).any()))
        return options.save(figure)


def printed_lines(
    patterns: Float[np.ndarray | Tensor, "head query key"],
    labels: Labels,
    names: Sequence[str],
    options: PrintOptions,
    *,
    share: float = 0.9,
) -> bytes:
    """Return heads as lines from each query on the left to its keys on the right.

    Of each row the largest weights are drawn that together hold `share` of it; a line is as dark as
    its weight, and each of the heads `names` has a colour of its own.
    """
    weights = as_weights(patterns, 3)
    if len(names) != len(weights):
        raise ArgumentError(f"Expected a name for each of {len(weights)} heads, got {len(names)}.")
    queries, keys = (
        clean_all(*axis)
        for axis in zip(labels, weights.shape[1:], ("queries", "keys"), strict=True)
    )
    width = options.inches
    height = max(len(queries), len(keys)) * _ROW + _CAPTION + 0.3
    with canvas(width, height) as figure:
        from matplotlib.collections import LineCollection

        axes = figure.add_subplot()
        for pattern, colour in zip(weights, theme.qualitative()[: len(weights)], strict=False):
            curves, opacity = _curves(pattern, share)
            red, green, blue = (part / 255 for part in theme.rgb(colour))
            colours = [(red, green, blue, alpha) for alpha in opacity]
            axes.add_collection(LineCollection(list(curves), colors=colours, linewidths=1.1))
        style: dict[str, Any] = dict(fontsize=6.5, color=theme.ink(), va="center")
        for side, (x, align, tokens) in enumerate(
            ((-0.02, "right", queries), (1.02, "left", keys))
        ):
            for y, token in enumerate(tokens):
                axes.text(x, y, token, ha=align, **style)
            axes.text(
                side,
                -1.2,
                ("looks (query)", "looks at (key)")[side],
                ha=align,
                fontsize=7,
                color=theme.muted(),
            )
        axes.set_xlim(-0.5, 1.5)
        axes.set_ylim(max(len(queries), len(keys)) - 0.5, -1.7)
        axes.axis("off")
        _name_colours(axes, names)
        return options.save(figure)


def printed_grid_and_head(
    tiles: Tiles,
    pattern: Float[np.ndarray | Tensor, "query key"],
    labels: Labels,
    chosen: tuple[int, int],
    options: PrintOptions,
    *,
    visible: Bool[np.ndarray | Tensor, "query key"] | None = None,
    layer_numbers: Sequence[int] = (),
) -> bytes:
    """Return all heads, the tiles of `tiles_of`, and beside them the weights of the chosen one.

    The chosen head is framed. `layer_numbers` are the model's own, 0, 1, 2 ... if not given.
    """
    weights, rows, columns = labelled_head(pattern, labels)
    mosaic, pitch = tiles
    width = options.inches
    grid_width = 0.4 * width
    cell = (width - grid_width - _longest(rows) - _BAR - 0.3) / weights.shape[1]
    tall = (grid_width - 0.3) * mosaic.shape[0] / mosaic.shape[1]
    height = max(cell * weights.shape[0] + _longest(columns), tall + 0.3) + _CAPTION + 0.3
    with canvas(width, height) as figure:
        from matplotlib.patches import Rectangle

        grid, head = figure.subplots(1, 2, width_ratios=(2, 3))
        draw_cells(grid, mosaic, options.scale)
        grid.set_aspect("equal")
        grid.set_anchor("N")
        name_heads(grid, tiles, layer_numbers)
        layer, number = chosen
        corner = number * pitch[1] - 0.5, (layer + 0.06) * pitch[0]
        frame = Rectangle(
            corner, pitch[1] * 0.96, pitch[0], fill=False, edgecolor=theme.accent(), linewidth=1
        )
        grid.add_patch(frame)
        shown = where_visible(weights, visible, MASKED_WEIGHT)
        draw_cells(head, shown, options.scale)
        head.set_aspect("equal")
        head.set_anchor("N")
        label_axes(head, rows, columns, max(cell, 0.01))
        add_colour_bar(figure, head, options.scale, bool((shown < 0).any()))
        return options.save(figure)


def _longest(labels: Sequence[str]) -> float:
    """Return the inches that the longest of the labels needs, up to a share of a column."""
    return min(max(map(len, labels), default=0) * _LETTER, 1.1)


def _curves(
    pattern: NDArray[np.float32], share: float
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return the curves of the largest weights of each row, and how dark each is."""
    order = np.argsort(-pattern, axis=1, kind="stable")
    ranked = np.take_along_axis(pattern, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    is_drawn = (before < share * ranked.sum(1, keepdims=True) - 1e-6) & (ranked > 0)
    rows, ranks = np.nonzero(is_drawn)
    keys, weights = order[rows, ranks], ranked[rows, ranks]
    strongest = np.argsort(weights, kind="stable")[-_MAX_LINES:]  # the darkest ones on top
    rows, keys, weights = rows[strongest], keys[strongest], weights[strongest]
    along = np.linspace(0, 1, _STEPS)
    bend = along**2 * (3 - 2 * along)
    heights = rows[:, None] + (keys - rows)[:, None] * bend
    curves = np.stack([np.broadcast_to(along, heights.shape), heights], axis=-1)
    return curves, np.clip(weights, 0.03, 1)


def _name_colours(axes: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    if len(names) < 2:
        return
    handles = [
        Line2D([], [], color=colour, label=name)
        for name, colour in zip(names, theme.qualitative(), strict=False)
    ]
    look: dict[str, Any] = dict(fontsize=6.5, frameon=False, ncols=min(len(names), 4))
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), **look)
