"""The head grid in Streamlit: every head of every layer on one canvas, one of them selected.

What is drawn is decided in head_grid.js.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from mha_viz.errors import ArgumentError
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.widgets.payload_carrier import carry
from mha_viz.ui.widgets.sent import place_sent
from mha_viz.web.browser import script, style
from mha_viz.web.payload import unpack
from mha_viz.web.theme import check_scale

Head = tuple[int, int]  # layer, head

_grid = st.components.v2.component(
    "mha_viz.head_grid", css=style("head_grid"), js=script("head_grid")
)


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

    Args:
        payload: what `mha_viz.web.payload.grid_payload` made. It travels to the browser once,
            not with every change of selection, scale or order.
        selected: (layer, head) with the frame.
        order: (layer, head) in the order of a ranking; tiles then flow, each with its name.
        scale: "sqrt", "linear" or "log"; changes the colours only.
        fact: name of one of the payload's facts, shown with each head's name.
        key: unique in the app; `{key}-heard` in the session's state belongs to it.
        on_select: takes the head that was chosen, before the run that this causes; in a fragment
            only that is run again.
    """
    settings: dict[str, Any] = {
        "payload": None,
        "selected": [int(i) for i in selected],
        "scale": check_scale(scale),
        "order": None if order is None else [[int(layer), int(head)] for layer, head in order],
        "fact": fact,
        "heard": st.session_state.get(f"{key}-heard"),
    }
    size = (0, 0)
    try:
        header = unpack(payload)[0]
        settings["payload"], size = header["id"], (header["layers"], header["heads"])
    except (ArgumentError, KeyError) as error:
        settings["error"] = f"This picture cannot be drawn: {error}"

    @guarded
    def hear() -> None:
        event = st.session_state.get(key)
        sent = event.get("select") if isinstance(event, Mapping) else None
        if isinstance(sent, Mapping) and isinstance(sent.get("id"), str):
            st.session_state[f"{key}-heard"] = sent["id"][:40]
        head = _chosen(sent, size)
        if head is not None and on_select is not None:
            on_select(head)

    with st.container(gap=None):
        _grid(key=key, data=settings, on_select_change=hear)
        carry(payload, key=f"{key}-payload")


def _chosen(sent: Any, size: tuple[int, int]) -> Head | None:
    """What the browser sent, if it is one of the heads: anyone can send anything.

    >>> _chosen({"layer": 1, "head": 2}, (2, 3))
    (1, 2)
    >>> _chosen({"layer": 2, "head": 0}, (2, 3)) is None
    True
    """
    if not isinstance(sent, Mapping):
        return None
    return place_sent([sent.get("layer"), sent.get("head")], size)
