"""Queries and keys of all heads in Streamlit: the maps, a table, and files.

What is drawn is decided in query_key_map.js.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

from mha_viz.circuits.attribution.query_key_map import QueryKeyMap
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


def payload_of(found: QueryKeyMap) -> bytes:
    """Pack the maps for the browser."""
    labels = [token.text for token in found.tokens]
    facts = {title: getattr(found, name) for name, title in FACTS.items()}
    arrays = found.points, found.strongest, found.weights
    title = f"{found.model} on “{found.texts[0][:80]}”"
    about: dict[str, Any] = {"facts": facts, "title": title}
    about["layer_numbers"] = found.layer_numbers
    return map_payload(*arrays, labels, found.text.tolist(), **about)
