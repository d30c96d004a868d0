"""The session's view: chosen by widgets, carried by the page's address.

Knows streamlit's session and address; must not import torch, transformers or plotly: the page is
there first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mha_viz.ui.session.faults import guarded
from mha_viz.ui.session.views import NAMES, View, from_params, to_params

MAX_ADDRESSES = 100  # of the browser's history, that a session knows by heart
T = TypeVar("T")
_WITH_OPTIONS = (st.selectbox, st.segmented_control, st.select_slider, st.multiselect, st.pills)


# -- the view and the address ----------------------------------------------------------------------

# Streamlit can bind a widget to a parameter of the address. A bound parameter is there only while
# its widget is drawn, so that a link from Explore would lose what Compare shows; a text of any
# length goes into it; and a model that a stranger names is refused without a word. So we write the
# address from the view, and ask Streamlit only which runs Back and Forward have caused.


def current() -> View:
    """The session's view; on its first run, what the URL asks for."""
    if "view" not in st.session_state:
        st.session_state.view, st.session_state.problems = from_params(address(), folders())
    view = st.session_state.view
    assert isinstance(view, View)
    return view


def change(**values: Any) -> View:
    """Replace parts of the view."""
    st.session_state.view = replace(current(), **values)
    return current()


def address() -> dict[str, str]:
    """What the browser's address says behind its question mark."""
    return {name: st.query_params[name] for name in st.query_params}


class _Meaning(NamedTuple):
    """What a page showed under an address."""

    view: View | None  # None where the page shows none
    params: dict[str, str]  # the view and the choices of a lab, as an address would say them


def arrive(page: str) -> None:
    """Note which page is open, and count the visits; for the start of every run."""
    if st.session_state.get("page") != page:
        st.session_state.page = page
        st.session_state.fresh = True
        st.session_state.visit = st.session_state.get("visit", 0) + 1


def follow(view: bool = True, more: Mapping[str, str] | None = None) -> bool:
    """Take the address's view where Back, Forward or a link led to it; for the start of a run.

    A page that is opened from another has no parameters and keeps the view. In any other run the
    address is not asked: it is what the browser had when it sent a click, and may be late.

    Args:
        view: whether this page's address carries a view; labs that need no text have none.
        more: the choices of a lab that are held already.

    Returns:
        Whether the page is to be shown as the address says.
    """
    fresh = st.session_state.pop("fresh", False)
    led = _through_history() or (fresh and bool(address()))
    if led and "view" in st.session_state and view:
        known = _known()
        if known is not None and known.view is not None:
            st.session_state.view, st.session_state.problems = known.view, []
        else:
            st.session_state.view, st.session_state.problems = from_params(address(), folders())
    if fresh and _known() is None:
        _remember(address() or _params(view) | dict(more or {}))
    return led


def _through_history() -> bool:
    """Whether the browser's Back or Forward caused this run."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def asked() -> dict[str, str]:
    """The parameters that the address stands for, also where it was opened without any."""
    known = _known()
    return address() if known is None else known.params


def publish(more: Mapping[str, str] | None = None, view: bool = True) -> None:
    """Write the view, and more where a page has choices of its own, into the address.

    Back and Forward lead through what was written. An address that says the same in other words
    (fewer, mostly) stays as it is: writing would add a step to the browser's history.

    Args:
        more: choices that are no part of the view.
        view: False leaves the view out.
    """
    params = _params(view) | dict(more or {})
    if not _says(address(), params, view):
        st.query_params.from_dict(params)
    _remember(params)


def link() -> dict[str, str]:
    """The view for another page's address, as this one has it; none where it does not fit."""
    for params in (address(), _params(True)):
        fits = from_params(params, folders()) == (current(), [])
        if params and fits and params.keys() <= NAMES:
            return params
    return {}


def _params(view: bool) -> dict[str, str]:
    return to_params(current()) if view else {}


def _says(written: Mapping[str, str], params: Mapping[str, str], view: bool) -> bool:
    """Whether an address leads to the same page as these parameters."""
    if written == params or not view:
        return written == params
    rest = {name: value for name, value in written.items() if name not in NAMES}
    found, problems = from_params(written, folders())
    return to_params(found) | rest == params and not problems


def _remember(params: dict[str, str]) -> None:
    """Keep what the present address shows: a text may be too long for it."""
    known = _addresses()
    known[_here()] = _Meaning(st.session_state.get("view"), params)
    known.move_to_end(_here())
    while len(known) > MAX_ADDRESSES:
        known.popitem(last=False)


def _known() -> _Meaning | None:
    return _addresses().get(_here())


def _addresses() -> OrderedDict[Any, _Meaning]:
    found: OrderedDict[Any, _Meaning] = st.session_state.setdefault("addresses", OrderedDict())
    return found


def _here() -> tuple[Any, ...]:
    return st.session_state.get("page", ""), *sorted(address().items())


@st.cache_resource(show_spinner=False)
def folders() -> set[str]:
    """Models typed by hand since the server started."""
    return set()


# -- what there is to say --------------------------------------------------------------------------


def problems() -> list[str]:
    """What the URL asked for in vain; each is told until the next choice."""
    return list(st.session_state.get("problems", ()))


def tell(problem: str) -> None:
    """Say, until the next choice, what was asked for in vain."""
    told = st.session_state.setdefault("problems", [])
    if problem not in told:
        told.append(problem)


# -- widgets ---------------------------------------------------------------------------------------


def bound(
    name: str,
    widget: Callable[..., T],
    *args: Any,
    also: Callable[[], None] | None = None,
    displayed: Any = None,
    **options: Any,
) -> T:
    """A widget that shows `view.name` and writes what the user chooses back into it.

    `also` is called after that. `displayed` stands in the widget instead, and is not written.
    """

    def take(value: Any) -> None:
        st.session_state.problems = []
        change(**{name: value})
        if also is not None:
            also()

    value = getattr(current(), name) if displayed is None else displayed
    return control(f"ask_{name}", widget, *args, value=value, take=take, **options)


def control(
    key: str,
    widget: Callable[..., T],
    *args: Any,
    value: Any,
    take: Callable[[Any], object],
    **options: Any,
) -> T:
    """A widget that shows a value and hands on what the user chooses, in a callback.

    Whoever holds the value, not the widget, is the source of truth. Streamlit is told to keep the
    widget while it is not drawn: it then also tells the browser, when it is drawn again.

    Args:
        key: of the widget.
        widget, args, options: as for Streamlit, without value, key and callback.
        value: what it shows.
        take: called with what was chosen; not with None, which is a segmented control switched
            off, nor with what is not among the options: a browser may still have the menu of the
            text before this one.
    """
    offered = list(args[1]) if widget in _WITH_OPTIONS else None
    name = options.get("format_func", str)
    show(key, value, None if offered is None else tuple(name(option) for option in offered))

    @guarded
    def store() -> None:
        chosen = st.session_state[key]
        several = chosen if isinstance(chosen, list) else [chosen]
        if chosen is not None and (offered is None or all(one in offered for one in several)):
            take(chosen)

    return widget(*args, key=key, on_change=store, persist_state="session", **options)


def show(key: str, value: Any, labels: tuple[str, ...] | None = None) -> None:
    """Give a widget a value that it does not have.

    To give it the one that it has would take back what is chosen in the browser at this moment.
    But on another page Streamlit takes it for a new widget, without a value, while its key still
    answers for the old one; and it knows a chosen option by its label: where the labels are new,
    the old one says nothing.
    """
    drawn_as = st.session_state.get("visit", 0), labels
    before = st.session_state.setdefault("drawn_as", {})
    same = before.get(key) == drawn_as and key in st.session_state
    if not same or st.session_state[key] != value:
        st.session_state[key] = value
    before[key] = drawn_as
