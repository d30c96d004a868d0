"""The turns of pages as the app takes them, and work behind the pages that gives way to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import streamlit as st

from mha_viz.core.asking import asking
from mha_viz.ui.lanes.turns import LOOK, GivesWay, turns
from mha_viz.ui.session.wanted import PATIENCE, look


@contextmanager
def page_run() -> Iterator[None]:
    """Around a run of a page, or of a part of it: it waits for its turn and has it until its end.

    What gives way stands still meanwhile.
    """
    with _waiting() as told, turns.run(told.place):
        told.end()
        yield


def standing_by() -> AbstractContextManager[None]:
    """Around a wait for other work in a run of a page: somebody else has its turn meanwhile."""
    return turns.standing_by(_look)


def wait_aside(event: threading.Event) -> None:
    """Wait for what another thread does; a run that nobody waits for any more ends."""
    with standing_by():
        while not event.wait(LOOK):
            look()


def heads_are_there() -> None:
    """The page shows what it was asked for: the rest of the run lets newer ones go first."""
    turns.pass_on(_look)


@contextmanager
def long_work() -> Iterator[None]:
    """Around work of seconds that a page waits for: one at a time, and giving way to short runs."""
    with _waiting() as told, turns.long_work(told.place):
        told.end()
        with asking(GivesWay()):
            yield


def _look(before: int) -> None:
    look()


class _Told:
    """Says on the page how many come first, where the wait is longer than nothing."""

    def __init__(self) -> None:
        self._begin, self._shown, self._said = time.monotonic(), ExitStack(), -1

    def place(self, before: int) -> None:
        """Ends a run that was overtaken; shows the place in the queue."""
        look()
        if time.monotonic() - self._begin > PATIENCE and before != self._said:
            self.end()
            others = "1 visitor" if before == 1 else f"{before} visitors"
            # What is no element takes no place: all below would move.
            self._shown.enter_context(st.spinner(f"Busy: {others} before you …"))
            self._said = before

    def end(self) -> None:
        """The turn has come."""
        self._shown.close()


@contextmanager
def _waiting() -> Iterator[_Told]:
    told = _Told()
    try:
        yield told
    finally:
        told.end()
