"""The mark that tells the browser, and tests in it, that a run has drawn everything.

`data-ready` of the document is the number of the run whose pictures are painted, and "working"
while anything of a run is still to come (web/components/page/ready.js).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

import streamlit as st

from mha_viz.ui.operating.streamlit_run import (
    Superseded,
    is_partial,
    script_component,
    session_id,
)
from mha_viz.ui.state import selection

P = ParamSpec("P")
T = TypeVar("T")
_is_marked: ContextVar[bool] = ContextVar("is_marked", default=False)  # by what is run around it


@contextmanager
def run_mark() -> Iterator[None]:
    """Draw the mark at the end of a run; one that a newer run supersedes gets none."""
    token = _is_marked.set(True)
    try:
        yield
    except Superseded:
        raise
    except BaseException:  # a page that ends early, or in an error, is ready as well
        _draw_mark()
        raise
    else:
        _draw_mark()
    finally:
        _is_marked.reset(token)


def fragment(draw: Callable[P, T]) -> Callable[P, T]:
    """Return a fragment of Streamlit whose runs are marked as those of pages are.

    One that runs by itself (`run_every`) is no answer to anybody: use `st.fragment` there.
    """

    @wraps(draw)
    def marked(*args: P.args, **named: P.kwargs) -> T:
        is_whole_run = is_partial() and not _is_marked.get()
        with run_mark() if is_whole_run else nullcontext():
            return draw(*args, **named)

    return st.fragment(marked)


def _draw_mark() -> None:
    number = selection.count_run()
    mark = {"session": session_id() or "", "run": number}
    script_component("ready")(key=f"run-mark-{number}", data=mark)
