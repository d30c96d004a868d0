"""Errors and notes as people should meet them: a sentence on the page, never a traceback."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.errors import AttentionUnavailableError, MhaVizError, NotKeptError, escaped
from mha_viz.ui.operating.streamlit_run import end_run
from mha_viz.ui.run import admission
from mha_viz.ui.run.page_lock import page_run
from mha_viz.ui.state import faults
from mha_viz.ui.state.session import session

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def stop_on_error(slot: DeltaGenerator | None = None) -> Iterator[None]:
    """Show an error inside as a message and end this run of the page; what was typed stays.

    A place, if given, holds the message. Each run empties it first, so the message of the run
    before does not stay there while this one works.

    What a link asked for in vain is said as well, for the page does not come to where it says so.
    """
    faulty, session().faults = session().faults, []
    for fault in faulty:
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
    shown = slot or st
    if is_hint:
        shown.info(message, icon=":material/edit:")
    else:
        shown.error(message, icon=":material/error:")
    problems(session().shown_problems)
    end_run()


def problems(already_shown: Iterable[str] = ()) -> list[str]:
    """Show what a link asked for in vain, except what is shown already; returns all of it."""
    every = list(session().problems)
    for problem in every:
        if problem not in already_shown:
            st.warning(plain(problem), icon=":material/link_off:")
    return every


def clear_next(count: int) -> None:
    """Empty the next places, which an earlier run may have filled.

    Streamlit leaves what this run does not draw again on the screen until it ends: what was said of
    the text before would stand beside the new one.
    """
    for _ in range(count):
        st.empty()


def plain(text: str) -> str:
    """Escape text for Streamlit's markdown: no links, no HTML, no formulas, no icons.

    Streamlit looks for addresses, :names: and arrows after it has removed the backslashes: an
    invisible word joiner breaks those up.
    """
    parted = _READ_LATE.sub("\\g<0>\u2060", escaped(text))
    return "".join("\\" + char if char in _MARKDOWN else char for char in parted)


_READ_LATE = re.compile(
    r"https?:(?=/)|www(?=\.)|\w(?=@\w)|:(?=\w[^\s:]*:)|[<>~-](?=[-=>])", re.IGNORECASE
)
_MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|$~:&")


def notes(every: Iterable[str]) -> None:
    """Write what to know about a result, a line each."""
    for note in every:
        st.caption(plain(note))


RETRY_SECONDS = 10  # between two attempts


def server_full() -> None:
    """Say that the server is full, and open the page once there is a place."""
    st.info(admission.refusal(), icon=":material/hourglass_top:")
    _wait()


@st.fragment(run_every=RETRY_SECONDS)
def _wait() -> None:
    if admission.is_admitted():
        st.rerun()


@contextmanager
def continue_on_error() -> Iterator[None]:
    """Show an error that the user can mend, or what a family does not allow; the page goes on.

    `stop_on_error` would end the page, and take away what is needed to mend the error.
    """
    try:
        yield
    except (AttentionUnavailableError, NotKeptError) as refusal:
        st.info(plain(str(refusal)), icon=":material/block:")
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/error:")


def number_columns(table: "pd.DataFrame", **more: Any) -> dict[str, Any]:
    """Return how `st.dataframe` shows columns of numbers: three significant digits.

    Columns sort as numbers. Streamlit draws a hyphen as their minus: its formats have no other, and
    pandas' Styler, which has, takes 20 ms and more for a table. Columns of whole numbers keep all
    their digits. `more` is of every column, such as its width.
    """
    return {
        str(name): st.column_config.NumberColumn(format="%.3g", **more)
        for name, column in table.select_dtypes("float").items()
        if not np.array_equal(defined := column.dropna(), np.round(defined))
    }


def readable(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with p and q as people read them: "< 0.001", else three decimals.

    They sort as text as they do as numbers.
    """
    tests = [name for name in ("p", "q") if name in table]
    return table.assign(**{name: table[name].map(_probability) for name in tests})


def _probability(value: float) -> str | None:
    if not np.isfinite(value):
        return None
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
