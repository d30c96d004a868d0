"""Reconnection of a page that has lost its server, or is loaded again, to what it showed.

The server may have been started anew, or have ended the session while the network was gone. The
page's address says what it showed, but for texts that are too long for it: they wait in the
browser, which sends them to the next session. reconnect.js decides when.
"""

import secrets
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import streamlit as st

from mha_viz.text.cleaning import MAX_CHARACTERS, SURROGATE
from mha_viz.ui.state import state
from mha_viz.ui.state.views import LONGEST, View, written
from mha_viz.web.browser import component_script


def restore_texts() -> None:
    """Keep long texts in the browser, or take them from it; once, at the start of every run."""
    session = st.session_state.setdefault("held_session", secrets.token_hex(8))
    before = st.session_state.get("held_before", "")  # of the one whose texts were taken
    with st.container(key="coming-back"):
        data = {"session": session, "after": before, "texts": _too_long()}
        kept = _component()(key=state.HELD, data=data, on_held_change=_nothing).held
    sender = kept.get("session") if isinstance(kept, Mapping) else None
    if not isinstance(sender, str) or sender[: len(session)] in (session, before):
        return  # the page tells what is known here, or has sent it before
    params = _texts_in(kept.get("params"))
    texts = _texts_in(kept.get("texts"))
    missing = {name: texts[name] for name in LONGEST if name in texts and name not in params}
    if missing:
        # In place of what the page shows: a run before this one knew of no text but the example.
        state.restore(params, missing)
    # Last: of a run that is superseded before, the browser's next one takes them again.
    st.session_state.held_before = sender[: len(session)]
    st.rerun()  # so that the browser hears of it, which sends them again until then


def _too_long() -> dict[str, str]:
    """Return the texts and pins of the session's view that its address leaves out."""
    view = st.session_state.get("view")
    if not isinstance(view, View):
        return {}
    texts = {name: written(getattr(view, name)) for name in LONGEST}
    return {name: text for name, text in texts.items() if len(text) > LONGEST[name]}


def _texts_in(sent: object) -> dict[str, str]:
    """Return the texts among what a browser sent; anyone can send anything."""
    if not isinstance(sent, Mapping):
        return {}
    return {str(name): text for name, text in sent.items() if _is_text(text)}


def _is_text(value: object) -> bool:
    """Return whether it is a text that can be shown; JSON can spell half a character."""
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        return False
    return SURROGATE.search(value) is None


def _nothing() -> None:
    """Do nothing: Streamlit delivers what a component triggers only where there is a callback."""


@cache
def _component() -> Callable[..., Any]:
    # Not at import, as elsewhere: the server imports this before it can take components.
    return st.components.v2.component("mha_viz.reconnect", js=component_script("reconnect"))
