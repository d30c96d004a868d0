"""The head grid in Streamlit: every head of every layer on one canvas, one of them selected.

What is drawn is decided in head_grid.js.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from mha_viz.errors import ArgumentError
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets.components.component import carry, component, event_of, validate_cell
from mha_viz.web.payload import unpack
from mha_viz.web.theme import check_scale

Head = tuple[int, int]  # layer, head

_grid = component("head_grid")


def head_grid(
    payload: bytes,
    *,
    selected: Head = (0, 0),
    order: Sequence[Head] | None = None,
    scale: str = "sqrt",
    fact: str | None = None,
    key: str,
    on_select: Callable[[Head], None] | None = None,
) -> None:
    """Draw all heads, one of them with a frame.

    A click or key press moves the frame in the browser at once. From the run on that has heard of
    it, the frame stands where `selected` says: Back and Forward move it, too.
    """
    settings = {
        "scale": check_scale(scale),
        "order": None if order is None else [[int(layer), int(head)] for layer, head in order],
        "fact": fact,
    }
    with st.container(gap=None):
        draw_heads(_grid, payload, settings, selected=selected, key=key, on_select=on_select)


def draw_heads(
    drawn: Any,
    payload: bytes,
    settings: Mapping[str, Any],
    *,
    selected: Head,
    key: str,
    on_select: Callable[[Head], None] | None,
) -> None:
    """Draw a component that shows a payload of all heads, and lets one be chosen."""
    data: dict[str, Any] = {
        "payload": None,
        "selected": [int(i) for i in selected],
        "heard": session().heard.get(key),
    }
    size = (0, 0)
    try:
        header = unpack(payload)[0]
        data["payload"], size = header["id"], (header["layers"], header["heads"])
    except (ArgumentError, KeyError) as error:
        data["error"] = f"This picture cannot be drawn: {error}"

    @guarded
    def on_event() -> None:
        sent = event_of(from_browser(key), "select")
        if isinstance(sent.get("id"), str):
            session().heard[key] = sent["id"][:40]
        head = validate_cell([sent.get("layer"), sent.get("head")], size)
        if head is not None and on_select is not None:
            on_select(head)

    drawn(key=key, data={**settings, **data}, on_select_change=on_event)
    carry(payload, key=f"{key}-payload")
