"""Any figure as a file: a picture with its caption drawn in, or a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go

from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text, wrapped
from mha_viz.web.standalone import figure_html as figure_html

WIDTH = 1000  # pixels of a picture whose figure does not say how wide it is
_HEIGHT = 450  # what plotly takes where a figure does not say how high it is
_FONT, _LINE = 12, 15.6  # of the caption, in pixels
_LEFT, _BELOW = 8, 30  # pixels beside and below the caption
_LETTER = 6.2  # mean width of a letter of the caption, in pixels
_CAPTION = "legend99"  # a name that no figure uses


def captioned(figure: go.Figure, caption: str, *, dark: bool, title: str = "") -> go.Figure:
    """A copy that can leave the screen: opaque, of a fixed size, its caption below it.

    The picture grows by the height of its caption; what was there keeps its size.

    Args:
        figure: any figure of this package.
        caption: model, text and settings; plain text, never read as markup.
        dark: the theme that the figure was made for.
        title: plain text; the caption's first line where the figure has no title of its own.
    """
    copy = go.Figure(figure)
    width, height = copy.layout.width or WIDTH, copy.layout.height or _HEIGHT
    letters = int((width - 2 * _LEFT) / _LETTER)
    named = bool(copy.layout.title.text) or not title
    lines = [] if named else [f"<b>{plotly_text(clean(title, 200))}</b>"]
    lines += [plotly_text(line) for line in wrapped(caption, letters)]
    more = round(_LINE * len(lines) + _BELOW) if lines else 0
    copy.update_layout(
        paper_bgcolor=theme.paper(dark), width=width, height=height + more, autosize=False
    )
    if lines:
        for placed in _on_the_container(copy):
            placed.y = (placed.y * height + more) / (height + more)
        _write_below(copy, "<br>".join(lines), dark)
    return copy


def _on_the_container(figure: go.Figure) -> Iterator[Any]:
    """Legends, colour bars and the title, where they are placed on the whole picture."""
    layout = figure.layout
    parts = [layout.title]
    parts += [layout[name] for name in layout if name.startswith("legend")]
    parts += [layout[name].colorbar for name in layout if name.startswith("coloraxis")]
    for trace in figure.data:
        parts += [trace[path] for path in ("colorbar", "marker.colorbar") if path in trace]
    for part in parts:
        if part.yref == "container" and isinstance(part.y, int | float):
            yield part


def _write_below(figure: go.Figure, text: str, dark: bool) -> None:
    """Text at the lower edge of the picture: the title of an extra legend whose entry is invisible.

    Annotations can only be placed on the plotting area, and how much of the picture the labels
    below that take is known to the browser alone. The title is needed at the top.
    """
    if not _has_legend(figure):
        for trace in figure.data:
            if "showlegend" in trace:
                trace.showlegend = False
    figure.add_shape(
        type="line",
        xref="paper",
        yref="paper",
        x0=0,
        x1=0,
        y0=0,
        y1=0,
        line=dict(width=0),
        name=" ",
        showlegend=True,
        legend=_CAPTION,
    )
    font = dict(family=theme.FONT, size=_FONT, color=theme.muted(dark))
    caption = dict(
        title=dict(text=text, side="top", font=font),
        font=dict(size=1),
        itemwidth=30,
        bgcolor="rgba(0,0,0,0)",
        borderwidth=0,
        orientation="h",
        x=_LEFT / figure.layout.width,
        xref="container",
        xanchor="left",
        y=0,
        yref="container",
        yanchor="bottom",
    )
    figure.update_layout({"showlegend": True, _CAPTION: caption})


def _has_legend(figure: go.Figure) -> bool:
    """Whether plotly shows a legend: where the figure asks for one, or where it has two entries."""
    if figure.layout.showlegend is not None:
        return bool(figure.layout.showlegend)
    asked = [
        trace.showlegend
        for trace in figure.data
        if "showlegend" in trace and "colorbar" not in trace
    ]
    return True in asked or asked.count(None) > 1
