"""An order to end some work: given by one thread, heard by the one that works."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stopped(BaseException):
    """The work was ended because nobody waits for it any more.

    It is not an `Exception`: code that tries something out and takes any failure for an answer must
    not take an order to stop for one. Streamlit ends a run in the same way.
    """


class Stop:
    """Given once. Whoever works looks at it now and then, or is told by a call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given = False
        self._then: list[Callable[[], object]] = []

    @property
    def given(self) -> bool:
        """Whether the work is to end."""
        return self._given

    def give(self) -> None:
        """Order the end, and call what waits for the order."""
        with self._lock:
            self._given, acts, self._then = True, self._then, []
        for act in acts:
            act()

    def then(self, act: Callable[[], object]) -> None:
        """Call `act` when the order is given: in the thread that gives it, or now if it was."""
        with self._lock:
            if not self._given:
                self._then.append(act)
                return
        act()

    def look(self) -> None:
        """Raise `Stopped` where the order was given."""
        if self._given:
            raise Stopped
