"""Tokens in the spaces of a head, in Streamlit.

What is drawn is decided in token_spaces.js.
"""

from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from mha_viz.core.compare.token_spaces import HeadSpaces
from mha_viz.plots.space_scatter import N_COLOURS, SpacePanel, TokenColours
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser
from mha_viz.ui.widgets.components.component import LateComponent, event_of
from mha_viz.web.space_payload import spaces_payload
from mha_viz.web.theme import format_number

_spaces = LateComponent("token_spaces")


def token_spaces(
    payload: bytes, n_tokens: int, *, key: str, on_open: Callable[[int], None]
) -> None:
    """Draw the panels; `on_open` takes the number of a token that was clicked."""

    @guarded
    def opened() -> None:
        token = event_of(from_browser(key), "open").get("token")
        if type(token) is int and 0 <= token < n_tokens:
            on_open(token)

    with st.container(gap=None):
        _spaces(key=key, data=payload, on_open_change=opened)
        _spaces.bring(f"{key}-script")


def payload_of(
    spaces: HeadSpaces, panels: Sequence[SpacePanel], colours: TokenColours, name: str
) -> bytes:
    """Pack the spaces for the browser."""
    values = np.asarray(colours.values, np.float32)
    limits = float(values.min()), float(values.max())
    colour = {
        "title": colours.title,
        "names": list(colours.names),
        "full": len(colours.names) == N_COLOURS,
        "limits": limits,
        "ends": [format_number(limit) for limit in limits],
    }
    about = {
        "name": name,
        "text": spaces.text.tolist(),
        "position": spaces.position.tolist(),
        "texts": spaces.texts,
        "colour": colour,
    }
    points = np.stack([panel.points for panel in panels])
    titles = [(panel.name, panel.axes) for panel in panels]
    labels = [token.text for token in spaces.tokens]
    return spaces_payload(points, values, titles, labels, about)
