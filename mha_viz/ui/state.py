"""The session's view: chosen by widgets, carried by the page's address.

Knows streamlit's session and address; must not import torch, transformers or plotly: the page is
there first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st

from mha_viz.ui.views import NAMES, View, from_params, to_params

LATE = 0.3  # seconds in which a browser may still send the address before the last one
T = TypeVar("T")


def current() -> View:
    """The session's view; on its first run, what the URL asks for."""
    if "view" not in st.session_state:
        st.session_state.view, st.session_state.problems = from_params(address(), folders())
    view = st.session_state.view
    assert isinstance(view, View)
    return view


def follow(view: bool = True) -> bool:
    """Take the address's view where Back or Forward led to it; for the start of a page's run.

    A page that is opened from another has no parameters and keeps the view. Where something was
    chosen since the address was last written, or a click is faster than the new address, the
    address is only late.

    Args:
        view: whether this page's address carries a view; labs that need no text have none.

    Returns:
        Whether Back or Forward led here.
    """
    params = address()
    overwritten, at = st.session_state.get("overwritten", ({}, 0.0))
    late = st.session_state.get("changed", False) or (
        params == overwritten and time.monotonic() - at < LATE
    )
    if view and "view" not in st.session_state:
        return False
    published = st.session_state.get("published")
    opened = not params and (view or published is None)  # from another page
    if late or opened or params == published:
        return False
    if view:
        found, st.session_state.problems = from_params(params, folders())
        if "text" not in params:  # it was too long for a link
            found = replace(found, text=st.session_state.view.text)
        st.session_state.view = found
    return True


def address() -> dict[str, str]:
    """What the browser's address says behind its question mark."""
    return {name: st.query_params[name] for name in st.query_params}


@st.cache_resource(show_spinner=False)
def folders() -> set[str]:
    """Models typed by hand since the server started."""
    return set()


def problems() -> list[str]:
    """What the URL asked for in vain; each is told until the next choice."""
    return list(st.session_state.get("problems", ()))


def tell(problem: str) -> None:
    """Say, until the next choice, what was asked for in vain."""
    told = st.session_state.setdefault("problems", [])
    if problem not in told:
        told.append(problem)


def change(**values: Any) -> View:
    """Replace parts of the view."""
    before = current()
    st.session_state.view = replace(before, **values)
    if current() != before:
        unsettle()
    return current()


def publish(more: Mapping[str, str] | None = None, view: bool = True) -> None:
    """Write the view, and more where a page has choices of its own, where they are not there yet.

    Back and Forward lead through what was written. `view` False leaves the view out.
    """
    params, before = (to_params(current()) if view else {}) | dict(more or {}), address()
    if view and _says(before, dict(more or {})):
        params = before  # a link in other words: written anew, it would take one more Back
    if params != before:
        st.session_state.overwritten = before, time.monotonic()
        st.query_params.from_dict(params)
    st.session_state.published = params
    settle()


def _says(params: dict[str, str], more: dict[str, str]) -> bool:
    """Whether an address says the view already, and no more than this beside it."""
    if not params:  # of a page that was opened from another
        return False
    found, problems = from_params(params, folders())
    rest = {name: value for name, value in params.items() if name not in NAMES}
    return found == current() and not problems and rest == more


def link() -> dict[str, str]:
    """The view for another page's address, as this one has it; none where it does not fit."""
    tries = address(), to_params(current())
    return next((params for params in tries if _says(params, {})), {})


def unsettle() -> None:
    """Something was chosen that the address does not say yet."""
    st.session_state.changed = True


def settle() -> None:
    """The address says all that was chosen, or as much of it as can be shown."""
    st.session_state.changed = False


def show(key: str, value: Any) -> None:
    """Give a widget a value that it does not have.

    To give it the one that it has would take back what is chosen in the browser at this moment.
    But on another page Streamlit takes a widget for a new one, without a value, while its key
    still answers for the old one; and a browser that came back has forgotten what it showed.
    """
    given: dict[str, int] = st.session_state.setdefault("given", {})
    visit = st.session_state.get("visit", 0)
    if given.get(key) != visit or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    given[key] = visit


def arrive(page: str) -> None:
    """Count the pages that were opened, one after the other; for the start of every run."""
    if st.session_state.get("page") != page:
        st.session_state.page = page
        st.session_state.visit = st.session_state.get("visit", 0) + 1
        st.session_state.published = None


def bound(
    name: str,
    widget: Callable[..., T],
    *args: Any,
    also: Callable[[], None] | None = None,
    shown: Any = None,
    **options: Any,
) -> T:
    """A widget that shows `view.name` and writes what the user chooses back into it.

    `also` is called after that. `shown` stands in the widget instead, and is not written.

    The view, not the widget, is the source of truth: Streamlit forgets a widget that is not drawn.
    """
    key = f"ask_{name}"
    show(key, getattr(current(), name) if shown is None else shown)

    def store() -> None:
        st.session_state.problems = []
        value = st.session_state[key]
        if value is not None:  # a segmented control can be switched off; then nothing changes
            change(**{name: value})
        if also is not None:
            also()

    return widget(*args, key=key, on_change=store, **options)
