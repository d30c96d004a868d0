"""Queries and keys of all heads in Streamlit: the maps, a table, and files.

What is drawn is decided in query_key_map.js.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

from mha_viz.core.compare.query_key_map import QueryKeyMap
from mha_viz.ui.widgets.components.component import LateComponent
from mha_viz.ui.widgets.components.head_grid import Head, draw_heads
from mha_viz.web.payload import map_payload

FACTS = {
    "plane_correlation": "correlation",
    "baseline": "keys exchanged",
    "nearer_has_more": "nearer key weighs more",
}

_map = LateComponent("query_key_map")


def query_key_map(
    payload: bytes, *, selected: Head, key: str, on_select: Callable[[Head], None]
) -> None:
    """Draw the maps of all heads, and that of the selected one large."""
    with st.container(gap=None):
        _map.bring(f"{key}-script")
        settings = {"fact": FACTS["plane_correlation"]}
        draw_heads(_map, payload, settings, selected=selected, key=key, on_select=on_select)


def payload_of(mapped: QueryKeyMap) -> bytes:
    """Pack the maps for the browser."""
    labels = [token.text for token in mapped.tokens]
    facts = {title: getattr(mapped, name) for name, title in FACTS.items()}
    arrays = mapped.points, mapped.strongest, mapped.weights
    title = f"{mapped.model} on “{mapped.texts[0][:80]}”"
    about: dict[str, Any] = {"facts": facts, "title": title}
    about["layer_numbers"] = mapped.layer_numbers
    return map_payload(*arrays, labels, mapped.text.tolist(), **about)
