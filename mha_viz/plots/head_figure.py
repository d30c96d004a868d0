"""A head's figure for every notebook: interactive where scripts may run, else a picture."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from mha_viz.web.labels import html_text

_PLOTLY = "application/vnd.plotly.v1+json"
# Front ends that draw no Plotly data but run its script, as Plotly knows them.
_SCRIPTS_ONLY = ("colab", "kaggle", "azure", "databricks")
_CALM = 'style="display:block;max-width:100%;height:auto"'


class HeadFigure(go.Figure):  # type: ignore[misc]  # plotly is untyped
    """A Plotly figure with a static picture beside it in what a notebook stores.

    Plotly's own display stores a script, or its data alone: blank in an exported page, in a PDF
    and wherever nobody trusts the notebook. Here the data is stored for front ends that draw
    Plotly figures, and a picture, as PNG and inside HTML without a script, for all others.
    `show()` and the exports stay Plotly's own.

    Args:
        figure: what is drawn.
        picture: draws it as PNG; called when the figure is displayed.
        alt: the picture in words.
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
        if pio.renderers.default in _SCRIPTS_ONLY:
            bundle |= super()._repr_mimebundle_()
        return bundle

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get("text/html")

    def __repr__(self) -> str:
        return f"HeadFigure({self._alt!r})"


def image_html(png: str, alt: str) -> str:
    """A picture inside HTML, for places that run no script and draw no frame.

    >>> "a &lt; b" in image_html("iVBORw0KGgo=", "a < b")
    True
    """
    return f'<img src="data:image/png;base64,{png}" alt="{html_text(alt)}" {_CALM}>'
