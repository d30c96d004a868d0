"""Plotly figures for a paper: vector files as wide as a column, drawn by matplotlib."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError
from mha_viz.plots.static import canvas, picture_file
from mha_viz.web import theme
from mha_viz.web.labels import clean, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {"single": 3.25, "double": 6.75}  # inches
FORMATS = ("pdf", "svg")
_POINTS = 6.5  # of all text
_LETTER = 0.55  # mean width of a letter, by the size of the type
_CELL = 0.3  # inches: the largest cell
_TALLEST = 8.5  # inches of what lies between the axes: a page
_VECTOR = 5_000  # cells; more of them are pixels
_PAGE = 720  # pixels of a figure on screen, by which lines and dots get smaller
_TAG = re.compile(r"<[^>]*>")
_SYMBOLS = {"circle": "o", "diamond": "D", "square": "s", "cross": "P", "x": "X", "star": "*"}


def column_image(
    figure: go.Figure,
    *,
    file_format: str = "pdf",
    column: str = "single",
    title: str = "",
    caption: str = "",
) -> bytes:
    """Return a figure of cells, bars, lines or dots as a "pdf" or "svg" file of a column's width.

    It is 3.25 inches wide ("single") or 6.75 ("double") and as high as it needs. Text has 6.5
    points and is embedded. The notes above the figure, title and caption are not drawn, since a
    paper has them below: title and caption are in the file's metadata. Trees beside cells are left
    out. Draw the figure for a light page.
    """
    if column not in COLUMNS:
        raise ArgumentError(f'column must be "single" or "double", got {column!r}.')
    with canvas(COLUMNS[column], COLUMNS[column]) as drawn:
        axes = drawn.add_subplot()
        cells = [trace for trace in figure.data if trace.type == "heatmap"]
        for trace in figure.data:
            if trace.yaxis in (None, "y"):
                _DRAWERS[trace.type](axes, trace, 72 * COLUMNS[column] / _PAGE)
        for shape in figure.layout.shapes:
            _draw_shape(axes, shape)
        if cells:
            _add_colour_bar(drawn, axes, cells[0], _heading(figure))
        _frame(axes, figure, bool(cells))
        _fit_height(drawn, axes, figure, cells[0].z.shape if cells else None)
        return picture_file(drawn, file_format, title, caption, FORMATS)


# -- traces ----------------------------------------------------------------------------------------


def _draw_cells(axes: Axes, trace: Any, _pixel: float) -> None:
    values = np.ma.masked_invalid(np.asarray(trace.z, float))
    places = (np.arange(n + 1) - 0.5 for n in values.shape[::-1])
    many = values.size > _VECTOR
    look: dict[str, Any] = dict(edgecolors=theme.paper(), linewidth=0.0 if many else 0.3)
    look |= dict(vmin=trace.zmin, vmax=trace.zmax, cmap=_colours(trace), rasterized=many)
    axes.pcolormesh(*places, values, **look)


def _colours(trace: Any) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("scale", [tuple(stop) for stop in trace.colorscale])


def _draw_points(axes: Axes, trace: Any, pixel: float) -> None:
    x, y = (np.array(along, dtype=float) for along in (trace.x, trace.y))
    modes, edge = (trace.mode or "lines").split("+"), trace.marker.line
    if "lines" in modes:
        width = (trace.line.width or 2) * pixel
        axes.plot(x, y, color=trace.line.color, linewidth=width, solid_capstyle="butt", zorder=2)
    if "markers" in modes and trace.marker.opacity != 0:
        size, shape = trace.marker.size, str(trace.marker.symbol or "circle")
        look: dict[str, Any] = dict(marker=_SYMBOLS.get(shape.removesuffix("-open"), "o"))
        look |= dict(edgecolors=edge.color, linewidths=pixel * (edge.width or 0))
        points = (np.asarray(size, float) * pixel) ** 2
        axes.scatter(x, y, points, trace.marker.color, clip_on=False, zorder=3, **look)


def _draw_bars(axes: Axes, trace: Any, _pixel: float) -> None:
    edge = trace.marker.line
    look = dict(color=trace.marker.color, edgecolor=edge.color or theme.paper(), linewidth=0.3)
    axes.bar(trace.x, np.asarray(trace.y, float), trace.width or 0.75, zorder=2, **look)


_DRAWERS: dict[str, Callable[[Axes, Any, float], None]] = {
    "heatmap": _draw_cells, "scatter": _draw_points, "bar": _draw_bars
}  # fmt: skip


def _draw_shape(axes: Axes, shape: Any) -> None:
    """Draw a rectangle below the cells, or a pale one above them."""
    from matplotlib.patches import Rectangle

    corner, sizes = (shape.x0, shape.y0), (shape.x1 - shape.x0, shape.y1 - shape.y0)
    place = dict(zorder=0 if shape.layer == "below" else 4, alpha=shape.opacity)
    axes.add_patch(Rectangle(corner, *sizes, facecolor=shape.fillcolor, linewidth=0, **place))


def _add_colour_bar(figure: Figure, axes: Axes, trace: Any, title: str) -> None:
    from matplotlib.cm import ScalarMappable

    numbers = ScalarMappable(cmap=_colours(trace))
    numbers.set_clim(trace.zmin, trace.zmax)
    bar = figure.colorbar(numbers, ax=axes, location="top", aspect=40, pad=0.02, shrink=0.8)
    lines = wrapped(title, int(72 * figure.get_figwidth() / (_LETTER * _POINTS)))
    bar.set_label("\n".join(lines), fontsize=_POINTS, color=theme.ink(), parse_math=False)
    bar.ax.tick_params(length=2, labelsize=_POINTS, color=theme.muted(), labelcolor=theme.ink())
    bar.outline.set_visible(False)


# -- axes ------------------------------------------------------------------------------------------


def _text(marked_up: str | None) -> str:
    """Return a text that was made fit for plotly as it is read.

    >>> _text("<b>a &lt; b</b>")
    'a < b'
    """
    return html.unescape(_TAG.sub("", (marked_up or "").replace("<br>", " ")))


def _heading(figure: go.Figure) -> str:
    """Return a figure's title without the notes below it, which are in smaller type."""
    return _text((figure.layout.title.text or "").partition("<span")[0]).strip()


def _frame(axes: Axes, figure: go.Figure, cells: bool) -> None:
    """Give both axes the range, ticks and title that they have on screen."""
    layout = figure.layout
    for axis, own in (("x", layout.xaxis), ("y", layout.yaxis)):
        if own.range is not None:
            axes.set(**{f"{axis}lim": tuple(own.range)})
        named = [layout[name] for name in (f"{axis}axis2",) if name in layout]  # of cells
        ticks = (named or [own])[0]
        if ticks.tickvals is not None:
            names = [clean(_text(name), 14) for name in ticks.ticktext]
            axes.set(**{f"{axis}ticks": list(ticks.tickvals), f"{axis}ticklabels": names})
        style = dict(fontsize=_POINTS, color=theme.ink(), parse_math=False)
        axes.set(**{f"{axis}label": _text(own.title.text)})
        getattr(axes, f"{axis}axis").label.set(**style)
        for label in getattr(axes, f"get_{axis}ticklabels")():
            label.set_parse_math(False)
    axes.tick_params(length=0 if cells else 2, pad=2, labelsize=_POINTS, labelcolor=theme.ink())
    axes.tick_params(color=theme.muted())
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set(visible=not cells and side in ("left", "bottom"), color=theme.gridline())
    if not cells:
        axes.grid(axis="y", color=theme.gridline(), linewidth=0.4, zorder=0)
        axes.set_axisbelow(True)


def _fit_height(
    figure: Figure, axes: Axes, source: go.Figure, shape: tuple[int, int] | None
) -> None:
    """Make the figure as high as its axes need at the width that labels leave them."""
    square = source.layout.yaxis.scaleanchor is not None
    for _ in range(2):  # labels that no longer fit change the width
        figure.draw_without_rendering()
        box = axes.get_position()
        wide, around = figure.get_figwidth() * box.width, figure.get_figheight() * (1 - box.height)
        inner = wide * (0.6 if figure.get_figwidth() < 5 else 0.4)
        if shape is not None:
            rows, columns = shape
            cell = wide / columns
            inner = rows * (cell if square else min(max(cell, _POINTS / 72 * 1.1), _CELL))
        inner = min(inner, _TALLEST)
        figure.set_figheight(around + inner)
        _thin(axes, wide, inner)


def _thin(axes: Axes, wide: float, high: float) -> None:
    """Turn the labels below where they are too wide, and leave out those that do not fit."""
    across, down = ([tick.get_text() for tick in labels]
                    for labels in (axes.get_xticklabels(), axes.get_yticklabels()))  # fmt: skip
    line = 1.15 * _POINTS / 72  # inches
    longest = max(map(len, across), default=0) * _LETTER * _POINTS / 72
    if len(across) * (longest + line / 2) > wide:
        axes.tick_params(axis="x", rotation=90)
    _every(axes.get_xticklabels(), across, line, wide)
    _every(axes.get_yticklabels(), down, line, high)


def _every(labels: Sequence[Any], names: Sequence[str], line: float, room: float) -> None:
    step = max(1, math.ceil(len(names) * line / room))
    for i, label in enumerate(labels):
        label.set_visible(i % step == 0)
