"""Controls that show choices of the view and write them back, or lead to another page with them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.core.layer_numbers import layer_names
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.state.views import Choice
from mha_viz.ui.widgets.controls import lazy_sections

Offered = Sequence[Any] | Mapping[Any, str]  # values, or values and what each is called


class Look(TypedDict, total=False):
    """Streamlit's options of a control, and the extras of `selection.bound`."""

    width: int  # in pixels
    help: str
    also: Callable[[], object]
    displayed: object
    disabled: bool
    label_visibility: str  # "collapsed" where what stands around says what it is


def menu(name: str, label: str, offered: Offered, **look: Unpack[Look]) -> None:
    """Draw a menu that shows the view's field `name`."""
    selection.bound(name, st.selectbox, label, list(offered), format_func=_titles(offered), **look)


def segments(name: str, label: str, offered: Offered, **look: Unpack[Look]) -> None:
    """Draw buttons side by side, one of them pressed; arguments as for `menu`."""
    widget, titles = st.segmented_control, _titles(offered)
    selection.bound(name, widget, label, list(offered), wrap=True, format_func=titles, **look)


def chips(
    key: str,
    label: str,
    offered: Mapping[Any, str],
    *,
    chosen: object,
    take: Callable[[Any], object],
) -> None:
    """Draw a few of many, as small buttons; one is pressed where the chosen one is among them."""
    value, titles = chosen if chosen in offered else None, _titles(offered)
    options = {"wrap": True, "format_func": titles}
    selection.control(key, st.pills, label, list(offered), value=value, take=take, **options)


def more(key: str) -> DeltaGenerator:
    """Return the menu "More", for choices that few need; `key` ends in "-more"."""
    return st.popover("More", icon=":material/tune:", key=key)


def layers(count: int, numbers: Sequence[int] | None = None) -> dict[int, str]:
    """Return layers by position and their names; their numbers are the page's model's, or these."""
    layer_numbers = selection.current().layer_numbers if numbers is None else numbers
    return dict(enumerate(layer_names(count, layer_numbers)))


def numbered(letter: str, count: int) -> dict[int, str]:
    """Return the first numbers, each with a letter before it.

    >>> numbered("L", 2)
    {0: 'L0', 1: 'L1'}
    """
    return {number: f"{letter}{number}" for number in range(count)}


def head_menus(n_layers: int, n_heads: int, hint: str = "", width: int = 85) -> None:
    """Draw the menus of the chosen head; `hint` says what it is chosen for."""
    menu("layer", "Layer", layers(n_layers), width=width, help=hint)
    menu("head", "Head", numbered("H", n_heads), width=width)


def token_boxes(width: int, also: Callable[[], None] | None = None) -> None:
    """Draw the boxes of the token to track, and of the one that it is compared with."""
    options: dict[str, Any] = {"also": also, "width": width, "max_chars": 100}
    hint = "(the likeliest)"
    selection.bound("target", st.text_input, "Token to track", placeholder=hint, **options)
    selection.bound("against", st.text_input, "Compared with", placeholder="(none)", **options)


def open_in_heads() -> None:
    """Draw a button that leads to everything about the chosen head."""
    page_button("heads", "Open in Heads")


def page_button(page: str, label: str, number: int | str = "", **choices: Choice) -> None:
    """Draw a button that leads to another page with these choices; each has another `number`."""
    if st.button(label, icon=":material/open_in_new:", key=f"open_in_{page}{number}"):
        open_page(page, **choices)


def open_page(page: str, **choices: Choice) -> None:
    """Lead to another page with these choices."""
    selection.change(**choices)
    # With the address that the page would write itself: otherwise Back would stop there twice.
    st.switch_page(session().pages[page], query_params=selection.share_params())


def open_file(key: str, popover: str, label: str, take: Callable[[bytes], object]) -> None:
    """Draw a popover with the upload of a JSON file that was saved here; `take` gets its bytes."""

    @guarded
    def on_file() -> None:
        uploaded = from_browser(key)
        if uploaded is not None:
            allowed.check_upload(uploaded.size)
            take(uploaded.getvalue())

    def upload() -> None:
        most = allowed.upload_mb()
        st.file_uploader(label, "json", key=key, on_change=on_file, max_upload_size=most)

    lazy_sections.in_popover("Open", ":material/upload:", popover, upload)


def _titles(offered: Offered) -> Callable[[Any], str]:
    return offered.__getitem__ if isinstance(offered, Mapping) else str
