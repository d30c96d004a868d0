"""A board as one picture for paper: several heads with cells of one size, and one colour bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mha_viz.core.compare.alignment import aligned
from mha_viz.core.record.visible import visible_keys
from mha_viz.plots.static import (
    MASKED_WEIGHT,
    add_colour_bar,
    canvas,
    draw_cells,
    finish,
    label_axes,
)
from mha_viz.web import theme
from mha_viz.web.board import BoardAxes, BoardHead
from mha_viz.web.labels import clean

_ACROSS = 3  # heads in a row, at most
_LABELS = (1.15, 1.05)  # inches of labels beside and above the cells
_NAME, _BAR = 0.45, 0.9  # inches of a head's name and of the colour bar
_TITLE, _CAPTION = 0.4, 1.0  # inches of the title, and of title and caption
_CELLS = 3.6  # inches that the cells of a head have at most


def board_image(
    heads: Sequence[BoardHead],
    axes: BoardAxes,
    *,
    file_format: str = "png",
    title: str = "",
    caption: str = "",
    scale: str = "sqrt",
) -> bytes:
    """Return the heads that have records, on their common axes, as a "png", "svg" or "pdf" file.

    Cells have one size. Those whose keys are masked are grey; places that a text does not have stay
    open. Title and caption are drawn, and kept in the file's metadata.
    """
    drawn = [head for head in heads if head.record is not None]
    across = math.ceil(len(drawn) / math.ceil(len(drawn) / _ACROSS))
    down = math.ceil(len(drawn) / across)
    rows, columns = len(axes.queries[0]), len(axes.keys[0])
    cell = min(_CELLS / max(rows, columns), 0.28)
    wide, high = cell * columns + _LABELS[0] + 0.5, cell * rows + _LABELS[1] + _NAME
    width, height = across * wide + _BAR, down * high + _CAPTION
    with canvas(width, height) as figure:
        figure.set_layout_engine("none")
        for at, head in enumerate(drawn):
            x = (at % across) * wide + _LABELS[0]
            y = height - _TITLE - (at // across + 1) * high + _NAME
            box = x / width, y / height, cell * columns / width, cell * rows / height
            _draw(figure.add_axes(box), head, axes.queries[at], axes.keys[at], (cell, scale))
        # The bar takes the right edge of axes that are not seen.
        bar = figure.add_axes((1 - 3 * _BAR / width, 0.3, 2 * _BAR / width, 0.55))
        bar.set_axis_off()
        add_colour_bar(figure, bar, scale, masked=True)
        return finish(figure, file_format, title, caption)


def _draw(
    axes: Any,
    head: BoardHead,
    queries: list[int | None],
    keys: list[int | None],
    look: tuple[float, str],
) -> None:
    """Draw one head's cells, labels and name."""
    record, (cell, scale) = head.record, look
    assert record is not None
    weights = aligned(record.head(*head.head), queries, keys).astype(np.float32)
    visible = aligned(visible_keys(record, head.head[0]).float(), queries, keys)
    draw_cells(axes, np.where(visible == 0, MASKED_WEIGHT, weights), scale)
    rows, columns = (
        ["" if position is None else clean(names[position]) for position in positions]
        for names, positions in ((record.labels, queries), (record.key_labels, keys))
    )
    label_axes(axes, rows, columns, cell)
    style: dict[str, Any] = dict(fontsize=9, color=theme.ink(), ha="center", va="top")
    name = f"{head.name} · {head.source}\n{clean(head.text, 60)}"
    axes.annotate(name, (0.5, 0), (0, -5), "axes fraction", textcoords="offset points", **style)
