"""Errors as people should meet them: a sentence on the page, never a traceback.

Knows streamlit and our exception tree.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import streamlit as st

from mha_viz.errors import MhaVizError, is_panic
from mha_viz.ui import state

log = logging.getLogger("mha_viz")


@contextmanager
def shown() -> Iterator[None]:
    """Show an error inside as a message and end this run of the page; what was typed stays."""
    try:
        yield
        return
    except MhaVizError as error:
        message = str(error)
    except MemoryError:
        message = "There is not enough memory for this. Shorten the text or take a smaller model."
    except BaseException as error:
        # Streamlit's own ways to end a run are no Exceptions; a fault in Rust code is none either.
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        # Ours to mend, not the user's to read: the server's log has the traceback.
        log.exception("unexpected error")
        message = (
            f"Something went wrong that should not have ({type(error).__name__}). Your text is "
            "still there; the server's log says more."
        )
    state.settle()
    st.error(plain(message), icon=":material/error:")
    st.stop()


def problems(said: Iterable[str] = ()) -> list[str]:
    """Say what a link asked for in vain, but for what is said already; returns all of it."""
    every = state.problems()
    for problem in every:
        if problem not in said:
            st.warning(plain(problem), icon=":material/link_off:")
    return every


def plain(text: str) -> str:
    """Text that Streamlit's markdown shows as it is: no links, no HTML, no formulas, no icons.

    Addresses, :names: and arrows are looked for when the backslashes are gone: a word joiner,
    which nobody sees, keeps those apart.
    """
    parted = _READ_LATE.sub("\\g<0>\u2060", text)
    return "".join("\\" + char if char in _MARKDOWN else char for char in parted)


_READ_LATE = re.compile(
    r"https?:(?=/)|www(?=\.)|\w(?=@\w)|:(?=\w[^\s:]*:)|[<>~-](?=[-=>])", re.IGNORECASE
)
_MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|$~:&")
