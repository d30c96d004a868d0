"""The server's memory and its limit: near it caches are dropped, beyond it work is refused.

A server that takes more than its machine has is ended by the system, with all that visitors have
open. So whoever asks for what takes much is refused before that.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import psutil

from mha_viz.core.available_memory import available
from mha_viz.ui.operating.refusals import refused
from mha_viz.ui.operating.settings import settings

NEAR_LIMIT = 0.85  # share of the limit from which on values that no page shows are dropped
LetGo = Callable[[bool], object]  # of what can be made again: all of it, or what nobody looks at
POLL_SECONDS = 1.0  # between two checks
DROP_INTERVAL_SECONDS = 30.0  # between two times at which everything is dropped
MB = 10**6


class Ceiling:
    """A guard that keeps the server below its memory limit.

    It may take `most` bytes and takes `used`; `let_go` makes room, `clock` gives seconds.
    """

    def __init__(
        self,
        most: int,
        used: Callable[[], int],
        let_go: LetGo,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self.over = most, False
        self._used, self._let_go, self._clock = used, let_go, clock
        self._emptied = -DROP_INTERVAL_SECONDS

    def look(self) -> None:
        """Make room where there is little, and note whether there is too little all the same."""
        n_bytes = self._used()
        if n_bytes > NEAR_LIMIT * self.most:
            everything = (
                n_bytes > self.most and self._clock() - self._emptied >= DROP_INTERVAL_SECONDS
            )
            if everything:
                self._emptied = self._clock()
            self._let_go(everything)
            n_bytes = self._used()
        self.over = n_bytes > self.most

    def keep(self) -> None:
        """Check again and again, in a thread of its own."""

        def on_and_on() -> None:
            while True:
                self.look()
                time.sleep(POLL_SECONDS)

        threading.Thread(target=on_and_on, daemon=True, name="memory ceiling").start()


def used_bytes() -> int:
    """Return the bytes in memory of this process and its children.

    Of a child only the part counts that it shares with nobody, where the system tells it (Linux):
    the libraries that all have loaded lie in memory once.
    """
    process = psutil.Process()
    n_bytes: int = process.memory_info().rss
    for child in process.children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            memory = child.memory_info()
            n_bytes += memory.rss - getattr(memory, "shared", 0)
    return n_bytes


def free_bytes() -> int:
    """Return the bytes that this machine, or the container of the server, has left."""
    n_bytes = available()
    return int(psutil.virtual_memory().available) if n_bytes is None else n_bytes


_ceilings: list[Ceiling] = []


@cache
def keep(let_go: LetGo) -> None:
    """Keep this server below its ceiling from now on, where it has one."""
    most = settings().memory_mb
    if most is not None:
        _ceilings.append(Ceiling(most * MB, used_bytes, let_go))
        _ceilings[-1].keep()


def is_over() -> bool:
    """Return whether the server takes more memory than it may."""
    return any(ceiling.over for ceiling in _ceilings)


def check() -> None:
    """Refuse what would take much memory while there is too little: raises LimitError."""
    if is_over():
        raise refused("memory")
