"""The token lines in Streamlit: a few heads as lines from query tokens to key tokens.

Knows Streamlit. What is drawn is decided in token_lines.js.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from mha_viz.plots.browser import script, style

_lines = st.components.v2.component(
    "mha_viz.token_lines", css=style("token_lines"), js=script("token_lines")
)


def token_lines(
    payload: bytes, *, key: str, on_pair: Callable[[], None] | None = None
) -> tuple[int, int] | None:
    """Draw the lines; return the (query, key) pair that was just chosen, else None.

    The choice is a trigger: it comes back in exactly one run and, inside a fragment, reruns only
    that fragment.

    Args:
        payload: what `mha_viz.plots.payload.lines_payload` made.
        key: unique in the app.
        on_pair: called before the run that returns the pair.
    """
    result = _lines(key=key, data=payload, on_pair_change=on_pair if on_pair else _nothing)
    return _pair(result.get("pair"))


def _pair(value: Any) -> tuple[int, int] | None:
    """What the browser sent, if it is a pair of positions: anyone can send anything."""
    try:
        query, position = int(value["query"]), int(value["key"])
    except (TypeError, KeyError, ValueError):
        return None
    return (query, position) if query >= 0 and position >= 0 else None


def _nothing() -> None:
    """Streamlit names a trigger in its result only where there is a callback for it."""
