"""Figures that leave the app: as a file with a caption, for the last row of a class, a notebook."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from mha_viz.web import theme
from mha_viz.web.labels import clean, html_text, plotly_text, wrapped
from mha_viz.web.standalone import figure_html as figure_html

WIDTH = 1000  # pixels of a picture whose figure does not say how wide it is
_HEIGHT = 450  # what plotly takes where a figure does not say how high it is
_FONT, _LINE = 12, 15.6  # of the caption, in pixels
_LEFT, _BELOW = 8, 30  # pixels beside and below the caption
_LETTER = 6.2  # mean width of a letter of the caption, in pixels
_CAPTION = "legend99"  # a name that no figure uses
_IMAGE_STYLE = 'style="display:block;max-width:100%;height:auto"'
# Front ends that draw no Plotly data but run its script, as Plotly knows them.
_SCRIPT_RENDERERS = ("colab", "kaggle", "azure", "databricks")
_PLOTLY = "application/vnd.plotly.v1+json"
ENLARGEMENT = 1.3  # of `enlarged`
_FONT_SIZE = re.compile(r"font-size:(\d+)px")


def captioned(figure: go.Figure, caption: str, *, dark: bool, title: str = "") -> go.Figure:
    """Return a copy that can leave the screen: opaque, of a fixed size, its caption below it.

    The picture grows by the height of its caption; what was there keeps its size. `dark` is the
    theme that the figure was made for; `title` begins the caption where the figure has none of its
    own.
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
    """Yield legends, colour bars and the title, where they are placed on the whole picture."""
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
    """Write text at the lower edge: the title of an extra legend whose entry is invisible.

    Annotations can only be placed on the plotting area, and how much of the picture the labels
    below that take is known to the browser alone. The title is needed at the top.
    """
    if not _has_legend(figure):
        for trace in figure.data:
            if "showlegend" in trace:
                trace.showlegend = False
    corner = dict(x0=0, x1=0, y0=0, y1=0, xref="paper", yref="paper", line=dict(width=0))
    figure.add_shape(type="line", name=" ", showlegend=True, legend=_CAPTION, **corner)
    font = dict(family=theme.FONT, size=_FONT, color=theme.muted(dark))
    title = dict(text=text, side="top", font=font)
    caption = dict(title=title, font=dict(size=1), itemwidth=30, orientation="h", borderwidth=0)
    caption |= dict(x=_LEFT / figure.layout.width, xref="container", xanchor="left")
    caption |= dict(y=0, yref="container", yanchor="bottom", bgcolor="rgba(0,0,0,0)")
    figure.update_layout({"showlegend": True, _CAPTION: caption})


def _has_legend(figure: go.Figure) -> bool:
    """Return whether plotly shows a legend: where the figure asks for one or has two entries."""
    if figure.layout.showlegend is not None:
        return bool(figure.layout.showlegend)
    entries = [
        trace.showlegend
        for trace in figure.data
        if "showlegend" in trace and "colorbar" not in trace
    ]
    return True in entries or entries.count(None) > 1


def enlarged(figure: go.Figure) -> go.Figure:
    """Return a copy whose fonts, and the room around the picture, are `ENLARGEMENT` times as large.

    >>> enlarged(go.Figure(layout=dict(font=dict(size=10)))).layout.font.size
    13.0
    """
    # not with the figure's own to_dict, which turns its arrays into text
    traces = [_enlarged(trace.to_plotly_json(), in_font=False) for trace in figure.data]
    layout = _enlarged(figure.layout.to_plotly_json(), in_font=False)
    for name, pixels in layout.get("margin", {}).items():
        if name in "lrtb":
            layout["margin"][name] = pixels * ENLARGEMENT
    for name in ("width", "height"):
        if layout.get(name):
            layout[name] = layout[name] * ENLARGEMENT
    return go.Figure(dict(data=traces, layout=layout))


def _enlarged(part: Any, in_font: bool) -> Any:
    if isinstance(part, dict):
        return {
            key: value * ENLARGEMENT
            if in_font and key == "size" and isinstance(value, int | float)
            else _enlarged(value, in_font or key.endswith("font"))
            for key, value in part.items()
        }
    if isinstance(part, list | tuple):
        return [_enlarged(value, in_font) for value in part]
    if isinstance(part, str):
        return _FONT_SIZE.sub(lambda size: f"font-size:{int(size[1]) * ENLARGEMENT:.0f}px", part)
    return part


class HeadFigure(go.Figure):  # type: ignore[misc]  # plotly is untyped
    """A Plotly figure with a static picture beside it in what a notebook stores.

    Plotly's own display stores a script, or its data alone: blank in an exported page, in a PDF and
    wherever nobody trusts the notebook. Here the data is stored for front ends that draw Plotly
    figures, and a picture, as PNG and inside HTML without a script, for all others. `show()` and
    the exports stay Plotly's own. `picture` draws the PNG when the figure is displayed; `alt` is
    the picture in words.
    """

    _ipython_display_ = None  # else IPython would not ask for the bundle

    def __init__(
        self, figure: Any = None, *, picture: Callable[[], bytes] | None = None, alt: str = ""
    ) -> None:
        super().__init__(figure)
        self._picture, self._alt = picture, alt

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        bundle = {"text/plain": repr(self), _PLOTLY: json.loads(self.to_json())}
        if self._picture is not None:
            png = base64.b64encode(self._picture()).decode("ascii")
            bundle |= {"image/png": png, "text/html": image_html(png, self._alt)}
        if pio.renderers.default in _SCRIPT_RENDERERS:
            bundle |= super()._repr_mimebundle_()
        return bundle

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get("text/html")

    def __repr__(self) -> str:
        return f"HeadFigure({self._alt!r})"


def image_html(png: str, alt: str) -> str:
    """Return a picture inside HTML, for places that run no script and draw no frame.

    >>> "a &lt; b" in image_html("iVBORw0KGgo=", "a < b")
    True
    """
    return f'<img src="data:image/png;base64,{png}" alt="{html_text(alt)}" {_IMAGE_STYLE}>'
