"""A page that has lost its server comes back by itself, to what it showed.

The server may have been started anew, or have ended the session while the network was gone. The
page's address says what it showed, but for texts that are too long for it: they wait in the
browser. When that asks is decided in coming_back.js.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import streamlit as st

from mha_viz.ui.session import state
from mha_viz.ui.session.views import MAX_URL_TEXT, TEXTS, View
from mha_viz.web.browser import script


def come_back() -> None:
    """Leave long texts with the browser, or take them from it; once, at the start of every run."""
    view = st.session_state.get("view")
    with st.container(key="coming-back"):
        data = {"texts": None if view is None else _too_long(view)}  # None: keep what you have
        held = _component()(key="held-texts", data=data, on_held_change=_nothing).held
    if view is None and isinstance(held, Mapping) and isinstance(held.get("texts"), Mapping):
        texts = {name: held["texts"].get(name) for name in TEXTS}
        state.restore({name: text for name, text in texts.items() if isinstance(text, str)})


def _too_long(view: View) -> dict[str, str]:
    """The texts of a view that its address leaves out."""
    texts = {name: getattr(view, name) for name in TEXTS}
    return {name: text for name, text in texts.items() if len(text) > MAX_URL_TEXT}


def _nothing() -> None:
    """Streamlit hands on what a component triggers only where somebody listens."""


@cache
def _component() -> Callable[..., Any]:
    # Not at import, as elsewhere: the server imports this before it can take components.
    return st.components.v2.component("mha_viz.coming_back", js=script("coming_back"))
