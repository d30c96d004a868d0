"""The progress of a study: how far it is, how fast, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mha_viz.core.reprs import count


@dataclass(frozen=True)
class Progress:
    """The progress of a study.

    Args:
        n_texts: done, those of earlier runs among them.
        n_total: in the source; None where counting them would take long.
        n_tokens: done.
        texts_per_second: in this run; 0 before its first batch.
        seconds_left: None where it cannot be told.

    >>> Progress(50, 200, 900, 25.0, 6.0).in_words()
    '50 of 200 texts, 25 a second, about 6 seconds left'
    """

    n_texts: int
    n_total: int | None
    n_tokens: int
    texts_per_second: float
    seconds_left: float | None

    def in_words(self) -> str:
        """Write it in a line."""
        of = "" if self.n_total is None else f" of {self.n_total:,}"
        words = f"{self.n_texts:,}{of} texts"
        if self.texts_per_second:
            words += f", {self.texts_per_second:,.0f} a second"
        seconds = round(self.seconds_left or 0)
        if seconds and self.n_texts:
            words += f", about {count(seconds, 'second')} left"
        return words


BEGUN = Progress(0, None, 0, 0.0, None)  # before the texts are counted


class ProgressCounter:
    """A counter of what is done, which reports progress."""

    def __init__(self, n_total: int | None, on_progress: Callable[[Progress], None] | None) -> None:
        self._n_total, self._on_progress = n_total, on_progress
        self._n_texts = self._n_tokens = self._n_old = 0  # of complete shards
        self._begun = time.monotonic()

    def complete(self, shard: Mapping[str, int], *, old: bool = False) -> None:
        """Count a shard that is done, skipped texts and all; `old`: by an earlier run."""
        n_texts = shard["n_texts"] + shard["n_skipped"]
        self._n_texts, self._n_tokens = self._n_texts + n_texts, self._n_tokens + shard["n_tokens"]
        self._n_old += n_texts * old
        self.within(0, 0)

    def within(self, n_texts: int, n_tokens: int) -> None:
        """Report how far the shard is that is being measured."""
        if self._on_progress is None:
            return
        done = self._n_texts + n_texts
        speed = (done - self._n_old) / max(time.monotonic() - self._begun, 1e-6)
        left = None
        if self._n_total is not None and speed > 0:
            left = max(0, self._n_total - done) / speed
        self._on_progress(Progress(done, self._n_total, self._n_tokens + n_tokens, speed, left))
