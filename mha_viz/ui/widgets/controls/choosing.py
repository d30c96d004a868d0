"""Controls that show a choice of the view among a few, and write back what the user chooses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.core.layer_numbers import layer_names
from mha_viz.ui.state import selection

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
    """Draw buttons side by side, of which one is pressed; arguments as for `menu`."""
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


def _titles(offered: Offered) -> Callable[[Any], str]:
    return offered.__getitem__ if isinstance(offered, Mapping) else str
