"""PNG and SVG of a Plotly figure in Streamlit, drawn in the browser that shows it.

What a click does is decided in figure_download.js.
"""

from __future__ import annotations

from functools import cache

import plotly.graph_objects as go
import streamlit as st
from plotly.offline import get_plotlyjs
from streamlit import runtime

from mha_viz.web.browser import script, style

_download = st.components.v2.component(
    "mha_viz.figure_download", css=style("figure_download"), js=script("figure_download")
)


def figure_download(figure: go.Figure, *, file_name: str, key: str) -> None:
    """Draw the two buttons.

    The figure travels to the browser with them, so draw them only where somebody may click. The
    library of 4.6 MB follows at a click, and only where the page has none that can be used.

    Args:
        figure: as it should look in the file; its layout says how wide and high that is.
        file_name: without the ending.
        key: unique in the app.
    """
    _download(
        key=key, data={"figure": figure.to_json(), "plotly": _library_url(), "name": file_name}
    )


def _library_url() -> str | None:
    """Where the browser finds plotly.js. Streamlit forgets a file when the page runs again."""
    if not runtime.exists():
        return None
    manager = runtime.get_instance().media_file_mgr
    return manager.add(_library(), "text/javascript", "mha_viz.plotly_js")


@cache
def _library() -> bytes:
    return get_plotlyjs().encode("utf-8")
