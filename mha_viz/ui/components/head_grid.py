"""The head grid in Streamlit: every head of every layer on one canvas, one of them selected.

Knows Streamlit and the payload's header. What is drawn is decided in head_grid.js.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from mha_viz.errors import ArgumentError
from mha_viz.plots.browser import script, style
from mha_viz.plots.payload import unpack
from mha_viz.plots.theme import check_scale

_grid = st.components.v2.component(
    "mha_viz.head_grid", css=style("head_grid"), js=script("head_grid")
)
_carrier = st.components.v2.component("mha_viz.payload_carrier", js=script("payload_carrier"))


def head_grid(
    payload: bytes,
    *,
    selected: tuple[int, int] = (0, 0),
    order: Sequence[tuple[int, int]] | None = None,
    scale: str = "sqrt",
    fact: str | None = None,
    key: str,
    on_select: Callable[[], None] | None = None,
) -> tuple[int, int] | None:
    """Draw all heads; return the head that was just chosen, else None.

    The choice is a trigger: it comes back in exactly one run, the one that the click or key press
    caused, and inside a fragment it reruns only that fragment. The frame moves in the browser at
    once, without waiting for that run.

    Args:
        payload: what `mha_viz.plots.payload.grid_payload` made. It travels to the browser once,
            not with every change of selection, scale or order.
        selected: (layer, head) with the frame.
        order: (layer, head) in the order of a ranking; tiles then flow, each with its name.
        scale: "sqrt", "linear" or "log"; changes the colours only.
        fact: name of one of the payload's facts, shown with each head's name.
        key: unique in the app; the component keeps its state under it.
        on_select: called before the run that returns the choice.
    """
    settings: dict[str, Any] = {
        "payload": None, "selected": [int(i) for i in selected], "scale": check_scale(scale),
        "order": None if order is None else [[int(layer), int(head)] for layer, head in order],
        "fact": fact,
    }  # fmt: skip
    try:
        settings["payload"] = unpack(payload)[0]["id"]
    except (ArgumentError, KeyError) as error:
        settings["error"] = f"This picture cannot be drawn: {error}"
    with st.container(gap=None):
        result = _grid(
            key=key, data=settings, on_select_change=on_select if on_select else _nothing
        )
        _carrier(key=f"{key}-payload", data=payload)
    return _chosen(result.get("select"))


def _chosen(value: Any) -> tuple[int, int] | None:
    """What the browser sent, if it is a head: anyone can send anything."""
    try:
        layer, head = int(value["layer"]), int(value["head"])
    except (TypeError, KeyError, ValueError):
        return None
    return (layer, head) if layer >= 0 and head >= 0 else None


def _nothing() -> None:
    """Streamlit names a trigger in its result only where there is a callback for it."""
