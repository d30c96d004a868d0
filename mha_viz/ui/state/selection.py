"""The session's view: chosen by widgets, carried by the page's address.

Must not import torch, transformers or plotly, because the page is there before they are.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar, cast

import streamlit as st
from cachetools import LRUCache

from mha_viz.core.layer_numbers import number_at
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.operating.streamlit_run import is_history_navigation
from mha_viz.ui.state import long_texts, own_address
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.layer_numbers import by_number, by_position
from mha_viz.ui.state.links import FORMER_NAMES, from_params, to_params
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import NAMES, Choice, Shared, View

MAX_ADDRESSES = 100  # of the browser's history, whose views a session remembers
T = TypeVar("T")
V = TypeVar("V", bound=Shared)
LARGER = 21 / 16  # type on a projector beside ordinary type
_WITH_OPTIONS = (st.selectbox, st.segmented_control, st.select_slider, st.multiselect, st.pills)


# Streamlit can bind a widget to a parameter of the address. But a bound parameter is there only
# while its widget is drawn, so that a link from Heads would lose what Compare shows; texts of any
# length go into it; and a model that a stranger names is refused without a word. So we write the
# address from the view, and ask Streamlit only which runs were caused by Back and Forward.


def current() -> Shared:
    """Return the choices that pages share."""
    return _session_view()


def of(page: type[V]) -> V:
    """Return the part of the choices that a page sees; of `View`, all."""
    view = _session_view()
    return page(**{choice.name: getattr(view, choice.name) for choice in fields(page)})


def _session_view() -> View:
    """Return the session's choices; on its first run, what the URL asks for."""
    if "view" not in st.session_state:
        st.session_state.view, session().problems = _read(address())
    view = st.session_state.view
    assert isinstance(view, View)
    return view


def count_run() -> int:
    """Return the number of this run in its session, from 1 on."""
    session().runs += 1
    return session().runs


def change(**values: Choice) -> Shared:
    """Replace choices by the names of their fields, whichever page has them."""
    before = _session_view()
    view = replace(before, **cast(dict[str, Any], values))
    if view.run != before.run:
        view = replace(view, written=0, branches=(), window=(), tokens=())
    st.session_state.view = view
    return view


def number_layers(numbers: tuple[int, ...]) -> None:
    """Take layers for positions among those of a model with these numbers, () for 0, 1, 2 ..."""
    if _session_view().layer_numbers != numbers:
        st.session_state.view = by_position(_session_view(), numbers)


def address() -> dict[str, str]:
    """Return the parameters of the browser's address."""
    return {name: st.query_params[name] for name in st.query_params}


class _PageState(NamedTuple):
    """The contents of a page under an address."""

    view: View | None  # None where the page shows none
    params: dict[str, str]  # the view and the choices of a lab, as an address would say them


def on_page_enter(page: str) -> None:
    """Note which page is open, and count the visits; for the start of every run."""
    if session().page != page:
        session().page = page
        st.session_state.fresh = True
        session().visits += 1


def sync_from_url(view: bool = True, more: Mapping[str, str] | None = None) -> bool:
    """Take the view from the address after Back, Forward or a link; for the start of a run.

    A page that is opened from another one has no parameters and keeps the view. In all other runs
    the address is ignored: it is what the browser had when it sent a click, and may be outdated.
    """
    fresh = st.session_state.pop("fresh", False)
    navigated = is_history_navigation() or (fresh and bool(address()))
    # From the menu, with a path alone as its address.
    st.session_state.opened = fresh and not navigated
    if navigated and "view" in st.session_state and view:
        page_state = _page_state()
        if page_state is not None and page_state.view is not None:
            st.session_state.view, session().problems = page_state.view, []
        else:
            st.session_state.view, session().problems = _read(address())
    if fresh and _page_state() is None:
        _remember(address() or (to_params(_session_view()) if view else {}) | dict(more or {}))
    return navigated


def _read(params: Mapping[str, str]) -> tuple[View, list[str]]:
    """Return the view of an address, and what had to be ignored in it."""
    return from_params(params, folders(), long_texts.find)


def link_params(view: Shared) -> dict[str, str]:
    """Return the parameters of a view, whose long texts are kept for who opens them."""
    long_texts.keep(view)
    return to_params(view)


def url_params() -> dict[str, str]:
    """Return the parameters that the address stands for, even if it was opened without any."""
    page_state = _page_state()
    return address() if page_state is None else page_state.params


def push_url(more: Mapping[str, str] | None = None, view: bool = True) -> None:
    """Write the view, and more where a page has choices of its own, into the address.

    Back and Forward lead through what was written, and write nothing themselves: a step that was
    added there would be the end of the way back. An address that says the same in other words
    (fewer, mostly) stays as it is, too. That of a page that was opened from the menu is completed
    in place.
    """
    params = (link_params(_session_view()) if view else {}) | dict(more or {})
    opened = st.session_state.pop("opened", False)
    if not is_history_navigation() and not _leads_here(address(), params, view):
        if opened:
            own_address.complete(session().page, params)
            st.session_state.completed = params
            _remember(params, params)
        elif address() or st.session_state.get("completed") != params:
            st.query_params.from_dict(params)
    _remember(params)


def share_params() -> dict[str, str]:
    """Return the view as parameters of another page; empty where no address can say all of it."""
    for params in (address(), link_params(_session_view())):
        fits = _read(params) == (by_number(_session_view()), [])
        if params and fits and params.keys() <= NAMES:
            return params
    return {}


def _leads_here(written: Mapping[str, str], params: Mapping[str, str], view: bool) -> bool:
    """Return whether an address and these parameters lead to the same page."""
    if written == params or not view:
        return written == params
    foreign = {name: value for name, value in written.items() if name not in NAMES | FORMER_NAMES}
    view_of_address, problems = _read(written)
    return to_params(_opened(view_of_address)) | foreign == params and not problems


def _opened(view: View) -> View:
    """Return a link's view as the page shows it; where it names no head, the chosen one."""
    shown = _session_view()
    layer, head = session().auto_head or shown.chosen
    if min(view.chosen) < 0:
        view = replace(view, layer=number_at(shown.layer_numbers, layer), head=head)
    if view.layer_b < 0 and shown.second in (session().auto_second, shown.chosen):
        view = replace(view, layer_b=by_number(shown).layer_b, head_b=shown.head_b)
    return view


def _remember(params: dict[str, str], written: Mapping[str, str] | None = None) -> None:
    """Store what the present address shows, which may say less than the view."""
    states = st.session_state.setdefault("addresses", LRUCache(MAX_ADDRESSES))
    states[_address_key(written)] = _PageState(st.session_state.get("view"), params)


def _page_state() -> _PageState | None:
    page_state: _PageState | None = st.session_state.get("addresses", {}).get(_address_key())
    return page_state


def _address_key(written: Mapping[str, str] | None = None) -> tuple[Any, ...]:
    params = address() if written is None else written
    return session().page, *sorted(params.items())


def folders() -> set[str]:
    """Return models typed by hand since the server started; of a public server none counts."""
    return set() if settings().public else _folders()


@st.cache_resource(show_spinner=False)
def _folders() -> set[str]:
    return set()


def add_problem(problem: str) -> None:
    """Show a message until the next choice: what was asked for in vain."""
    shown = session().problems
    if problem not in shown:
        shown.append(problem)


def bound(
    name: str,
    widget: Callable[..., T],
    *args: object,
    also: Callable[[], object] | None = None,
    displayed: object = None,
    **options: object,
) -> T:
    """Draw a widget that shows `view.name` and writes what the user chooses back into it.

    `displayed` is shown in place of the view's value, and `also` called after a choice was written;
    the rest is as for `control`.
    """

    def take(value: Choice) -> None:
        session().problems = []
        change(**{name: value})
        if also is not None:
            also()

    value = getattr(_session_view(), name) if displayed is None else displayed
    return control(f"ask_{name}", widget, *args, value=value, take=take, **options)


def for_type(pixels: int) -> int:
    """Scale a length in pixels to the page's type, which is larger on a projector."""
    return round(pixels * LARGER) if session().is_projected else pixels


def control(
    key: str,
    widget: Callable[..., T],
    *args: object,
    value: object,
    take: Callable[[Any], object],
    **options: object,
) -> T:
    """Draw a widget that shows a value and hands on what the user chooses, in a callback.

    The source of truth is the value, not the widget. Streamlit keeps the widget's
    state while it is not drawn, and then also tells the browser when it is drawn again.

    `args` are its label and, if it has them, its options or limits, `options` what else it takes: a
    width in pixels grows with the type on a projector. `take` is called neither with None (a
    segmented control that was switched off) nor with a value that is not among the options: a
    browser may still show those of before.
    """
    if isinstance(width := options.get("width"), int):
        options["width"] = for_type(width)
    offered = list(cast(Iterable[object], args[1])) if widget in _WITH_OPTIONS else None
    title = cast(Callable[[object], str], options.get("format_func", str))
    show(key, value, None if offered is None else tuple(title(option) for option in offered))

    @guarded
    def store() -> None:
        chosen = st.session_state[key]
        several = chosen if isinstance(chosen, list) else [chosen]
        if chosen is not None and (offered is None or all(choice in offered for choice in several)):
            take(chosen)

    return widget(*args, key=key, on_change=store, persist_state="session", **options)


def show(key: str, value: object, labels: tuple[str, ...] | None = None) -> None:
    """Give a widget a value, unless it has it already.

    To set the value again would undo what is being chosen in the browser at this moment. But on
    another page Streamlit takes the widget for a new one without a value, although its key still
    returns the old one; and Streamlit identifies a chosen option by its label, so that the old
    choice means nothing once the labels are new.
    """
    drawn_as = session().visits, labels
    before = st.session_state.setdefault("drawn_as", {})
    same = before.get(key) == drawn_as and key in st.session_state
    if not same or st.session_state[key] != value:
        st.session_state[key] = value
    before[key] = drawn_as
