"""Work behind the pages gives way to the runs of pages, which somebody waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 5.0  # seconds that the work stands still at once
_changed = threading.Condition()
_under_way = 0  # runs of pages
_own = threading.local()  # .runs: of this thread


@contextmanager
def page_run() -> Iterator[None]:
    """Around a run of a page, or of a part of it: what gives way stands still meanwhile."""
    global _under_way
    _own.runs = getattr(_own, "runs", 0) + 1
    with _changed:
        _under_way += 1
    try:
        yield
    finally:
        _own.runs -= 1
        with _changed:
            _under_way -= 1
            _changed.notify_all()


@contextmanager
def standing_by() -> Iterator[None]:
    """Around a wait for other work in a run of a page: nothing gives way to it meanwhile."""
    global _under_way
    runs = getattr(_own, "runs", 0)
    with _changed:
        _under_way -= runs
        _changed.notify_all()
    try:
        yield
    finally:
        with _changed:
            _under_way += runs


class GivesWay:
    """Called by some work between two of its blocks: returns once no page is run.

    It stands still for no longer than it has worked since, so that it comes to its end at half its
    speed however many pages are run.
    """

    def __init__(self) -> None:
        self._owes, self._went_on = LONGEST, time.monotonic()

    def __call__(self) -> None:
        """Stand still while a page is run."""
        stopped = time.monotonic()
        self._owes = min(LONGEST, self._owes + stopped - self._went_on)
        with _changed:
            _changed.wait_for(lambda: not _under_way, self._owes)
        self._went_on = time.monotonic()
        self._owes -= self._went_on - stopped
