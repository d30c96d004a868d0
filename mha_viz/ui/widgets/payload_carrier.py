"""The bytes that other components draw, brought into the page once."""

from __future__ import annotations

import streamlit as st

from mha_viz.web.browser import script

_carrier = st.components.v2.component("mha_viz.payload_carrier", js=script("payload_carrier"))


def carry(payload: bytes, *, key: str) -> None:
    """Put a payload where every component of the page finds it, by the id in its header.

    An element of its own: it stays the same while what draws the payload changes, so that the
    bytes do not travel again.

    Args:
        payload: what `mha_viz.web.payload.pack` made.
        key: unique in the app.
    """
    _carrier(key=key, data=payload)
