"""Turns of page runs, their threads of torch, and work that yields to them.

Importing it does not import torch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

import streamlit as st

from mha_viz.core.cancellation import cancellation
from mha_viz.ui.jobs.turns import POLL_SECONDS, CooperativeYield, turns
from mha_viz.ui.operating import streamlit_run

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

PATIENCE = 0.4  # seconds: what takes less is finished, and shows no bar
# Products of a pass, about.
_SMALL = 10**9  # some ten milliseconds in one thread
_LONG = 5 * 10**10  # half a second with all


@contextmanager
def page_run() -> Iterator[None]:
    """Hold a turn during a run of a page, or of a part of it; background work yields meanwhile."""
    with closing(_QueueNotice()) as notice, turns.run(notice.show, streamlit_run.visitor_address()):
        notice.close()
        with _all_threads():
            yield


def release_slot() -> AbstractContextManager[None]:
    """Release the turn of this run while it waits for other work."""
    return turns.release_slot(_raise_if_superseded)


def wait_without_slot(event: threading.Event) -> None:
    """Wait for another thread without holding a turn; end the run if it is superseded."""
    with release_slot():
        while not event.wait(POLL_SECONDS):
            streamlit_run.raise_if_superseded()


def yield_slot() -> None:
    """Let newer runs go first: this page shows already what was requested."""
    turns.requeue(_raise_if_superseded)


@contextmanager
def long_work() -> Iterator[None]:
    """Hold the long lane during work of seconds: one at a time, and yielding to short runs."""
    with closing(_QueueNotice()) as notice, turns.long_work(notice.show):
        notice.close()
        with cancellation(CooperativeYield()):
            yield


@contextmanager
def cancel_if_superseded() -> Iterator[None]:
    """Cancel the work inside once a click or a text has superseded it, or its page is left.

    Streamlit ends the run there; the result so far is gone.
    """
    checked = time.perf_counter()

    def check() -> None:
        nonlocal checked
        if time.perf_counter() - checked > PATIENCE:
            streamlit_run.raise_if_superseded()
            checked = time.perf_counter()

    with cancellation(check):
        yield


def _raise_if_superseded(before: int) -> None:
    streamlit_run.raise_if_superseded()


class _QueueNotice:
    """A message on the page that says how many come first, once the wait is noticeable."""

    def __init__(self) -> None:
        self._begin, self._shown, self._n_before = time.monotonic(), ExitStack(), -1

    def show(self, before: int) -> None:
        """Show the place in the queue, unless the run is superseded."""
        streamlit_run.raise_if_superseded()
        if time.monotonic() - self._begin > PATIENCE and before != self._n_before:
            self.close()
            ahead = "1 visitor" if before == 1 else f"{before} visitors"
            # What is no element takes no place: all below would move.
            self._shown.enter_context(st.spinner(f"Busy: {ahead} before you …"))
            self._n_before = before

    def close(self) -> None:
        """Remove the message."""
        self._shown.close()


def one_thread() -> AbstractContextManager[None]:
    """Run torch in one thread, so that the other processors stay free for clicks.

    Matrices this small gain little from threads, which wait for each other on a busy machine. It
    is the calling thread's matter: pages that are run meanwhile have all processors.
    """
    _usual_threads()
    return _threads(1)


def _all_threads() -> AbstractContextManager[None]:
    """Give this thread torch's usual number; a new thread begins with the number set last."""
    changed = _usual_threads.cache_info().currsize
    return _threads(_usual_threads()) if changed else nullcontext()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _usual_threads() -> int:
    """Return torch's own number, as it was before it was first changed."""
    import torch

    return torch.get_num_threads()


def n_parameters(model: AttentionModel) -> int:
    """Count the parameters of a model."""
    return sum(each.numel() for each in model.network.parameters())


@contextmanager
def turn_for(model: AttentionModel, text: str) -> Iterator[None]:
    """Take the lane for a pass of a text, or for work on one, and its share of the processors.

    The browser that waits for it draws on the same processors. Two threads that wait for each other
    there made 10 ms of a small model 200; and where several pages compute at once, each has one.
    `text` may be both texts: each of its characters is at most a token or four.
    """
    lane = long_work() if _work(model, text) > _LONG else nullcontext()
    alone = _work(model, text) >= _SMALL and turns.short.running <= 1
    with lane, _all_threads() if alone else one_thread():
        yield


def _work(model: AttentionModel, text: str) -> int:
    return n_parameters(model) * len(text)
