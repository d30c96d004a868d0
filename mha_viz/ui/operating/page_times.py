"""Figures of the server: runs of its pages and how long they took.

Nothing in them tells who did what: a page is known by its place in the app, and by nothing typed.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class Times:
    """Seconds by kind of work: how many took at most so long, and their sum."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, kind: str, seconds: float) -> None:
        """Count one more of a kind."""
        with self._lock:
            counts = self._counts.setdefault(kind, [0] * (len(BOUNDS) + 1))
            counts[bisect_left(BOUNDS, seconds)] += 1
            self._sums[kind] = self._sums.get(kind, 0.0) + seconds

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Note how long the block takes, however it ends."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.note(kind, time.perf_counter() - begun)

    def table(self) -> dict[str, tuple[list[tuple[float, int]], float]]:
        """Return, by kind, (bound, how many took at most as long) up to infinity, and the sum."""
        with self._lock:
            copies = {
                kind: (list(counts), self._sums[kind]) for kind, counts in self._counts.items()
            }
        bounds = (*BOUNDS, float("inf"))
        return {
            kind: ([(bound, sum(counts[: i + 1])) for i, bound in enumerate(bounds)], seconds)
            for kind, (counts, seconds) in copies.items()
        }


runs = Times()  # of the pages of this server
