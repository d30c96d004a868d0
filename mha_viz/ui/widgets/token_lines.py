"""The token lines in Streamlit: a few heads as lines from query tokens to key tokens.

What is drawn is decided in token_lines.js.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import streamlit as st

from mha_viz.web.browser import script, style

_lines = st.components.v2.component(
    "mha_viz.token_lines", css=style("token_lines"), js=script("token_lines")
)


class LinesEvent(NamedTuple):
    """What the user just did in the picture; None is nothing."""

    pair: tuple[int, int] | None  # the (query, key) that was chosen
    share: float | None  # the share of each row's mass that the slider was left at


def token_lines(payload: bytes, *, key: str) -> LinesEvent:
    """Draw the lines; return what the user just chose.

    Choices are triggers: they come back in exactly one run and, inside a fragment, rerun only that
    fragment.

    Args:
        payload: what `mha_viz.web.payload.lines_payload` made.
        key: unique in the app.
    """
    result = _lines(key=key, data=payload, on_pair_change=_nothing, on_share_change=_nothing)
    return LinesEvent(_pair(result.get("pair")), _share(result.get("share")))


def _share(value: Any) -> float | None:
    """What the browser sent, if it is a share: anyone can send anything."""
    share = float(value) if isinstance(value, int | float) else 0.0
    return share if 0.0 < share <= 1.0 else None


def _pair(value: Any) -> tuple[int, int] | None:
    """What the browser sent, if it is a pair of positions: anyone can send anything."""
    try:
        query, position = int(value["query"]), int(value["key"])
    except (TypeError, KeyError, ValueError):
        return None
    return (query, position) if query >= 0 and position >= 0 else None


def _nothing() -> None:
    """A callback, because Streamlit returns only those triggers that have one."""
