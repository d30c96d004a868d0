"""Plotly figures for a paper: vector files as wide as a column, drawn by matplotlib."""

from __future__ import annotations

import html
import math
import re
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
_LETTER, _LINE = 0.55 * _POINTS / 72, 1.15 * _POINTS / 72  # inches, of the letters' mean width
_CELL, _TALLEST = 0.3, 8.5  # inches: the highest cell, and what lies between the axes: a page
_VECTOR = 5_000  # cells; more of them are pixels
_PAGE = 720  # pixels of a figure on screen, by which lines and dots get smaller
_TAG = re.compile(r"<[^>]*>")
_INK, _LIGHT = theme.ink(), theme.gridline()
_STYLE: dict[str, Any] = {
    "axes.axisbelow": True, "axes.labelsize": _POINTS, "axes.labelcolor": _INK,
    "xtick.labelsize": _POINTS, "ytick.labelsize": _POINTS, "axes.facecolor": "none",
    "xtick.color": _LIGHT, "xtick.labelcolor": _INK, "ytick.color": _LIGHT,
    "ytick.labelcolor": _INK, "xtick.major.size": 2, "ytick.major.size": 2, "xtick.major.pad": 2,
    "ytick.major.pad": 2, "axes.edgecolor": _LIGHT, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid.axis": "y", "grid.color": _LIGHT, "grid.linewidth": 0.4,
}  # fmt: skip


def column_image(
    figure: go.Figure,
    *,
    file_format: str = "pdf",
    column: str = "single",
    title: str = "",
    caption: str = "",
) -> bytes:
    """Return a figure of cells, bars, lines or dots as a file of a column's width.

    It is 3.25 inches wide ("single") or 6.75 ("double") and as high as it needs. Text has 6.5
    points and is embedded. The notes above the figure, title and caption are not drawn, since a
    paper has them below: title and caption are in the file's metadata. Trees beside cells are left
    out. Draw the figure for a light page.
    """
    if column not in COLUMNS:
        raise ArgumentError(f'column must be "single" or "double", got {column!r}.')
    if (figure.layout.meta or {}).get("panels", 1) > 1:
        raise ArgumentError(
            "A figure of several panels has no form for a column: export it as SVG."
        )
    cells = next((trace for trace in figure.data if trace.type == "heatmap"), None)
    style = _STYLE | {"axes.grid": cells is None, "axes.spines.left": cells is None}
    style |= {"axes.spines.bottom": cells is None}
    with canvas(COLUMNS[column], COLUMNS[column], style) as drawn:
        axes = drawn.add_subplot()
        for trace in figure.data:
            if trace.yaxis in (None, "y"):
                _draw_trace(axes, trace, 72 * COLUMNS[column] / _PAGE)
        for shape in figure.layout.shapes:
            _draw_shape(axes, shape)
        _set_axes(axes, figure)
        if cells is None and figure.layout.yaxis.scaleanchor is not None:
            axes.set_aspect("equal", adjustable="datalim")
        if cells is not None:
            axes.tick_params(length=0)
            bar = drawn.colorbar(axes.collections[0], location="top", aspect=40, shrink=0.8)
            bar.outline.set_visible(False)
            heading = _text(figure.layout.title.text.partition("<span")[0])  # without the notes
            bar.set_label("\n".join(wrapped(heading, int(COLUMNS[column] / _LETTER))))
        _fit_height(drawn, axes, figure, None if cells is None else cells.z.shape)
        return picture_file(drawn, file_format, title, caption)


def _draw_trace(axes: Axes, trace: Any, pixel: float) -> None:
    """Draw cells, bars, or lines and dots; the invisible ones only answer clicks."""
    if trace.type == "heatmap":
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("", [tuple(stop) for stop in trace.colorscale])
        values = np.ma.masked_invalid(np.asarray(trace.z, float))
        edges, many = [np.arange(n + 1) - 0.5 for n in values.shape[::-1]], values.size > _VECTOR
        look: dict[str, Any] = dict(edgecolors=theme.paper(), linewidth=0.0 if many else 0.3)
        look |= dict(vmin=trace.zmin, vmax=trace.zmax, cmap=colours, rasterized=many)
        axes.pcolormesh(*edges, values, **look)
        return
    marker, edge = trace.marker, trace.marker.line
    x, y = (np.array(along, dtype=float) for along in (trace.x, trace.y))
    if trace.type == "bar":
        look = dict(color=marker.color, edgecolor=edge.color or theme.paper(), linewidth=0.3)
        axes.bar(x, y, trace.width or 0.75, **look)
        return
    modes = (trace.mode or "lines").split("+")
    if "lines" in modes:
        look = dict(color=trace.line.color, linewidth=(trace.line.width or 2) * pixel)
        axes.plot(x, y, solid_capstyle="butt", **look)
    if "markers" in modes and marker.opacity != 0:
        look = dict(edgecolors=edge.color, linewidths=pixel * (edge.width or 0), c=marker.color)
        if marker.symbol == "diamond-open":
            look = dict(edgecolors=marker.color, linewidths=pixel, c="none", marker="D")
        axes.scatter(x, y, (marker.size * pixel) ** 2, zorder=3, clip_on=False, **look)


def _draw_shape(axes: Axes, shape: Any) -> None:
    """Draw a rectangle below the cells, or a pale one above them."""
    from matplotlib.patches import Rectangle

    corner, sizes = (shape.x0, shape.y0), (shape.x1 - shape.x0, shape.y1 - shape.y0)
    style = dict(zorder=0 if shape.layer == "below" else 4, alpha=shape.opacity)
    axes.add_patch(Rectangle(corner, *sizes, facecolor=shape.fillcolor, linewidth=0, **style))


def _text(marked_up: str | None) -> str:
    """Return a text that was made fit for plotly as it is read.

    >>> _text("<b>a &lt; b</b>")
    'a < b'
    """
    return html.unescape(_TAG.sub("", (marked_up or "").replace("<br>", " ")))


def _set_axes(axes: Axes, figure: go.Figure) -> None:
    layout = figure.layout
    for axis in "xy":
        plotly_axis = layout[f"{axis}axis"]
        shown = layout[f"{axis}axis2"] if f"{axis}axis2" in layout else plotly_axis  # noqa: SIM401
        axes.set(**{f"{axis}label": _text(plotly_axis.title.text)})
        if plotly_axis.range is not None:
            axes.set(**{f"{axis}lim": tuple(plotly_axis.range)})
        if shown.tickvals is not None:
            names = [clean(_text(name), 14) for name in shown.ticktext]
            axes.set(**{f"{axis}ticks": list(shown.tickvals), f"{axis}ticklabels": names})


def _fit_height(figure: Figure, axes: Axes, source: go.Figure, shape: Any) -> None:
    """Make the figure as high as its axes need at the width that labels leave them."""
    square = source.layout.yaxis.scaleanchor is not None
    for _ in range(2):  # labels that no longer fit change the width
        figure.draw_without_rendering()
        box, (width, height) = axes.get_position(), figure.get_size_inches()
        wide, inner = width * box.width, width * box.width * (0.6 if width < 5 else 0.4)
        if shape is not None:
            rows, columns = shape
            cell = wide / columns
            inner = rows * (cell if square else min(max(cell, _LINE), _CELL))
        inner = min(inner, _TALLEST)
        figure.set_figheight(height * (1 - box.height) + inner)
        across, down = axes.get_xticklabels(), axes.get_yticklabels()
        longest = max((len(label.get_text()) for label in across), default=0) * _LETTER
        if len(across) * (longest + _LINE / 2) > wide:
            axes.tick_params(axis="x", rotation=90)
        for labels, room in ((across, wide), (down, inner)):
            step = max(1, math.ceil(len(labels) * _LINE / room))
            for i, label in enumerate(labels):
                label.set_visible(i % step == 0)
