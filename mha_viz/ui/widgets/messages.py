"""Errors as people should meet them: a sentence on the page, never a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import streamlit as st

from mha_viz.ui.session import faults, state
from mha_viz.ui.session.giving_way import page_run


@contextmanager
def stop_on_error() -> Iterator[None]:
    """Show an error inside as a message and end this run of the page; what was typed stays.

    What a link asked for in vain is said as well, for the page does not come to where it says so.
    """
    for fault in st.session_state.pop("faults", ()):  # in callbacks, which cannot draw
        st.error(plain(fault), icon=":material/error:")
    try:
        with page_run():  # of a part of a page as well, which runs by itself after a click
            yield
        return
    except BaseException as error:
        if not faults.is_fault(error):
            raise
        message = plain(faults.sentence(error))
        is_hint = isinstance(error, faults.NothingTyped)
    if is_hint:
        st.info(message, icon=":material/edit:")
    else:
        st.error(message, icon=":material/error:")
    problems(st.session_state.get("shown_problems", ()))
    st.stop()


def problems(already_shown: Iterable[str] = ()) -> list[str]:
    """Show what a link asked for in vain, except what is shown already; returns all of it."""
    every = state.problems()
    for problem in every:
        if problem not in already_shown:
            st.warning(plain(problem), icon=":material/link_off:")
    return every


def plain(text: str) -> str:
    """Text that Streamlit's markdown shows as it is: no links, no HTML, no formulas, no icons.

    Streamlit looks for addresses, :names: and arrows after it has removed the backslashes: an
    invisible word joiner breaks those up.
    """
    parted = _READ_LATE.sub("\\g<0>\u2060", text)
    return "".join("\\" + char if char in _MARKDOWN else char for char in parted)


_READ_LATE = re.compile(
    r"https?:(?=/)|www(?=\.)|\w(?=@\w)|:(?=\w[^\s:]*:)|[<>~-](?=[-=>])", re.IGNORECASE
)
_MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|$~:&")
