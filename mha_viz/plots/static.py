"""Pictures for paper: PNG and SVG with their caption drawn in and kept in the file."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from mha_viz.core.record.patterns import StoredPatterns
from mha_viz.errors import ArgumentError
from mha_viz.extras import require
from mha_viz.plots.frame import as_weights, labelled_head, where_visible
from mha_viz.web import theme
from mha_viz.web.labels import MAX_CAPTION, clean, layer_names, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Tried in this order for every character; families that are not installed are left out first.
_FONTS = (
    "Noto Sans, DejaVu Sans, Noto Sans CJK JP, Noto Sans CJK SC, Noto Sans Arabic, "
    "Noto Sans Hebrew, Noto Sans Devanagari, Noto Sans Thai, Noto Emoji, Noto Sans Symbols2, "
    "Arial Unicode MS, Segoe UI, Segoe UI Symbol, Apple Symbols"
).split(", ")
_DPI = 200
# Of each format, the metadata that hold the caption and the maker, and the dates that are left out.
_METADATA = {
    "png": ("Description", "Software"),
    "svg": ("Description", "Creator", "Date"),
    "pdf": ("Subject", "Creator", "CreationDate"),
}
_MAX_INCHES = 30.0  # 6000 pixels a side
MASKED_WEIGHT = -1.0  # stands for a cell that has no weight, in what is drawn
TILE = 200  # pixels of a tile in the picture of all heads
_ONE_AT_A_TIME = Lock()  # matplotlib keeps its settings and fonts for all threads together
Tiles = tuple[NDArray[np.float32], tuple[int, int]]  # of all heads in one array, and their distance


def head_image(
    pattern: Float[np.ndarray | Tensor, "query key"],
    labels: tuple[Sequence[str], Sequence[str]],
    *,
    file_format: str = "png",
    title: str = "",
    caption: str = "",
    scale: str = "sqrt",
    visible: Bool[np.ndarray | Tensor, "query key"] | None = None,
) -> bytes:
    """Return one head's weights (query, key) as a "png", "svg" or "pdf" file.

    Title and caption are drawn, as plain text without TeX, and kept in the file's metadata (PNG:
    the text chunks Title and Description; SVG: Dublin Core). Cells whose keys are not `visible` are
    grey.
    """
    weights, rows, columns = labelled_head(pattern, labels)
    shown = where_visible(weights, visible, MASKED_WEIGHT)
    queries, keys = weights.shape
    cell = min(max(5.5 / max(queries, keys), 0.006), 0.32)  # inches: one pixel at least
    with canvas(cell * keys + 2.6, cell * queries + 2.2) as figure:
        axes = figure.add_subplot()
        draw_cells(axes, shown, scale)
        axes.set_aspect("equal")
        label_axes(axes, rows, columns, cell)
        add_colour_bar(figure, axes, scale, bool((shown < 0).any()))
        return finish(figure, file_format, title, caption)


def grid_image(
    pattern: Float[np.ndarray | Tensor, "layer head query key"],
    *,
    file_format: str = "png",
    title: str = "",
    caption: str = "",
    visible: Bool[np.ndarray | Tensor, "layer query key"] | None = None,
    layer_numbers: Sequence[int] = (),
) -> bytes:
    """Return all heads (layer, head, query, key) as one file like `head_image`: a row per layer.

    `layer_numbers` are the model's own, 0, 1, 2 ... if not given.
    """
    mosaic, pitch = tiles = tiles_of(pattern, visible)
    layers, heads = np.shape(pattern)[:2]
    tile = min(1.1, (_MAX_INCHES - 3) / max(layers, heads))
    tall = tile * pitch[0] / pitch[1]
    with canvas(heads * tile + 1.4, layers * tall + 1.9) as figure:
        axes = figure.add_subplot()
        draw_cells(axes, mosaic, "sqrt")
        axes.set_aspect("equal")
        name_heads(axes, tiles, layer_numbers)
        add_colour_bar(figure, axes, "sqrt", bool((mosaic < 0).any()))
        return finish(figure, file_format, title, caption)


def tiles_of(
    pattern: Float[np.ndarray | Tensor, "layer head query key"],
    visible: Bool[np.ndarray | Tensor, "layer query key"] | None = None,
) -> Tiles:
    """Return all heads as tiles of one array, pooled where large, and their distance."""
    weights = _pooled(as_weights(pattern, 4))
    is_visible = None
    if visible is not None:
        layer_visible = np.asarray(visible)[:, None].astype(np.float32)
        is_visible = (_pooled(layer_visible) > 0).repeat(weights.shape[1], axis=1)
    return _mosaic(where_visible(weights, is_visible, MASKED_WEIGHT))


def name_heads(axes: Axes, tiles: Tiles, layer_numbers: Sequence[int] = ()) -> None:
    """Write the numbers of heads above tiles and of layers beside them."""
    mosaic, pitch = tiles
    layers, heads = (side // step for side, step in zip(mosaic.shape, pitch, strict=True))
    style: dict[str, Any] = dict(fontsize=8 if heads <= 8 else 6, color=theme.muted())
    across = [(head + 0.46) * pitch[1] for head in range(heads)]
    down = [(layer + 0.54) * pitch[0] for layer in range(layers)]
    axes.set_xticks(across, [f"H{head}" for head in range(heads)], **style)
    axes.set_yticks(down, layer_names(layers, layer_numbers), **style)
    axes.tick_params(length=0, pad=3, labeltop=True, labelbottom=False)


def _pooled(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the largest weights of equal cells, where a tile has too many of them."""
    return StoredPatterns(from_numpy(weights)).tiles(TILE).numpy()


def _mosaic(weights: NDArray[np.float32]) -> Tiles:
    """Return all tiles in one array with NaN between them, and the distance from tile to tile.

    One picture instead of a chart per head: matplotlib needs seconds for 144 axes.
    """
    layers, heads, queries, keys = weights.shape
    grow = max(1, TILE // max(queries, keys))
    high, wide = queries * grow, keys * grow
    space, gap = max(8, round(0.1 * high)), max(8, round(0.08 * wide))
    mosaic = np.full((layers * (high + space), heads * (wide + gap)), np.nan, dtype=np.float32)
    for layer, head in np.ndindex(layers, heads):
        top, x = layer * (high + space) + space, head * (wide + gap)
        tile = weights[layer, head].repeat(grow, axis=0).repeat(grow, axis=1)
        mosaic[top : top + high, x : x + wide] = tile
    return mosaic, (high + space, wide + gap)


@contextmanager
def canvas(width: float, height: float, style: dict[str, Any] | None = None) -> Iterator[Figure]:
    """Open a figure without pyplot and its global state, with the fonts that there are."""
    require("figures", "A figure as PNG, SVG or PDF", "HTML does without.")
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    installed = {font.name for font in font_manager.fontManager.ttflist}
    families = [name for name in _FONTS if name in installed] or ["DejaVu Sans"]
    settings: Any = {"font.family": families, "svg.fonttype": "path", "svg.hashsalt": "mha_viz"}
    settings |= {"text.parse_math": False, "pdf.fonttype": 42}  # TrueType, as journals want it
    settings |= style or {}
    with _ONE_AT_A_TIME, matplotlib.rc_context(settings), warnings.catch_warnings():
        # A character that no font has is drawn as a box; that is no matter for stderr.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message=".*does not support.*natively")
        size = min(width, _MAX_INCHES), min(height, _MAX_INCHES)
        figure = Figure(size, _DPI, facecolor=theme.paper(), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def draw_cells(axes: Axes, weights: NDArray[np.float32], scale: str) -> None:
    """Draw cells as pixels of their final colour; masked ones are grey, NaN is left open.

    256 colours from a table of our own: matplotlib's own way from numbers to colours takes
    seconds where all heads are drawn.
    """
    table = np.zeros((258, 4), dtype=np.uint8)
    colours = theme.sequential()
    table[:256] = [(*theme.rgb(theme.mix(colours, i / 255)), 255) for i in range(256)]
    table[257] = (*theme.rgb(theme.missing()), 255)
    codes_of_scale = theme.scale_weights(np.clip(np.nan_to_num(weights), 0, 1), scale) * 255
    codes = np.where(np.isnan(weights), 256, np.rint(codes_of_scale)).astype(np.intp)
    codes[weights < 0] = 257
    axes.imshow(table[codes], interpolation="nearest", aspect="auto")
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_visible(False)


def label_axes(axes: Axes, rows: list[str], columns: list[str], cell: float) -> None:
    """Write tokens beside rows and above columns, and what each axis is; `cell` is in inches."""
    size = min(9.0, max(5.0, cell * 72 * 0.62))
    step = max(1, math.ceil((size + 1) / (cell * 72)))
    style: dict[str, Any] = dict(fontsize=size, color=theme.ink())
    slanted: dict[str, Any] = dict(style, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_xticks(range(0, len(columns), step), columns[::step], **slanted)
    axes.set_yticks(range(0, len(rows), step), rows[::step], **style)
    axes.tick_params(length=0, pad=3, labeltop=True, labelbottom=False, top=False, bottom=False)
    named: dict[str, Any] = dict(fontsize=7, color=theme.muted())
    axes.set_xlabel("looks at (key)", **named)
    axes.xaxis.set_label_position("top")
    axes.set_ylabel("looks (query)", **named)


def add_colour_bar(figure: Figure, axes: Axes, scale: str, masked: bool) -> None:
    """Draw the colours of attention weights, and their ticks, beside the axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("attention", theme.sequential())
    weights = ScalarMappable(cmap=colours)
    weights.set_clim(0, 1)
    bar = figure.colorbar(weights, ax=axes, shrink=0.5, aspect=22, pad=0.02, anchor=(0, 1))
    ticks = np.array(theme.ticks(scale), dtype=np.float32)
    style: dict[str, Any] = dict(fontsize=7, color=theme.muted())
    tick_shares = theme.scale_weights(ticks, scale)
    bar.ax.set_yticks(
        [float(tick_share) for tick_share in tick_shares], [f"{tick:g}" for tick in ticks], **style
    )
    bar.ax.tick_params(length=2, color=theme.muted())
    bar.set_label("attention weight" + " (grey: masked)" * masked, **style)
    bar.outline.set_visible(False)


def finish(figure: Figure, file_format: str, title: str, caption: str) -> bytes:
    """Return a figure as a file, with title and caption drawn."""
    position: dict[str, Any] = dict(x=0.02, ha="left")
    if title:
        figure.suptitle(clean(title, 200), fontsize=11, color=theme.ink(), **position)
    if lines := wrapped(caption, max(40, int(figure.get_figwidth() * 16))):
        figure.supxlabel("\n".join(lines), fontsize=7, color=theme.muted(), **position)
    return picture_file(figure, file_format, title, caption)


def picture_file(figure: Figure, file_format: str, title: str, caption: str) -> bytes:
    """Return a figure as a file, with title and caption in its metadata, and without a date."""
    if file_format not in _METADATA:
        raise ArgumentError(f'file_format must be "png", "svg" or "pdf", got {file_format!r}.')
    caption_key, maker, *date = _METADATA[file_format]
    caption_line = clean(" ".join(caption.split()), MAX_CAPTION) if caption.strip() else ""
    texts = {
        "Title": clean(title, 200) if title else "",
        caption_key: caption_line,
        maker: "mha_viz",
    }
    metadata: Any = {name: text for name, text in texts.items() if text} | dict.fromkeys(date)
    file = io.BytesIO()
    figure.savefig(file, format=file_format, metadata=metadata, facecolor=theme.paper())
    return file.getvalue()
