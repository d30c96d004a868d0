"""A token that cancels work: set by one thread, checked by the one that works."""

import threading
from collections.abc import Callable


class Cancelled(BaseException):
    """The end of work that nobody waits for any more.

    It is not an `Exception`: code that treats any failure as an answer must not catch it.
    Streamlit ends a run in the same way.
    """


class CancelToken:
    """A flag that is set once: the work checks it regularly, or is called back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """True once it is set."""
        return self._is_set

    def set(self) -> None:
        """Cancel the work, and call the callbacks."""
        with self._lock:
            self._is_set, acts, self._callbacks = True, self._callbacks, []
        for act in acts:
            act()

    def add_callback(self, act: Callable[[], object]) -> None:
        """Call `act` in the thread that sets it, or now if it is set already."""
        with self._lock:
            if not self._is_set:
                self._callbacks.append(act)
                return
        act()

    def raise_if_set(self) -> None:
        """Raise `Cancelled` if it is set."""
        if self._is_set:
            raise Cancelled
