"""A request to end some work: set by one thread, checked by the one that works."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancelled(BaseException):
    """The work was ended because nobody waits for it any more.

    It is not an `Exception`: code that tries something out and takes any failure for an answer must
    not take a cancellation for one. Streamlit ends a run in the same way.
    """


class CancelToken:
    """A flag that is set once: the work checks it now and then, or is called back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Cancel the work, and call the callbacks."""
        with self._lock:
            self._is_set, acts, self._callbacks = True, self._callbacks, []
        for act in acts:
            act()

    def add_callback(self, act: Callable[[], object]) -> None:
        """Have `act` called by the thread that sets it; now, if it is set already."""
        with self._lock:
            if not self._is_set:
                self._callbacks.append(act)
                return
        act()

    def raise_if_set(self) -> None:
        """Raise `Cancelled` if it is set."""
        if self._is_set:
            raise Cancelled
