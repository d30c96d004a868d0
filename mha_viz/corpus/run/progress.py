"""The progress of a study, and the space that one of very many texts will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mha_viz.core.amounts import of_bytes
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
        bytes_of_text: the space that a text takes, once 4,096 of them are written.
        n_expected: n_total or, where nobody has counted, an estimate by the size of the source.

    >>> Progress(50, 200, 900, 25.0, 6.0).in_words()
    '50 of 200 texts, 25 a second, about 6 seconds left'
    """

    n_texts: int
    n_total: int | None
    n_tokens: int
    texts_per_second: float
    seconds_left: float | None
    bytes_of_text: float | None = None
    n_expected: float | None = None

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

    def __init__(
        self,
        n_total: int | None,
        n_bytes: int,  # of the source
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._n_total, self._n_bytes, self._on_progress = n_total, n_bytes, on_progress
        self._space: tuple[float, float] | None = None
        self._n_texts = self._n_tokens = self._n_old = 0  # of complete shards
        self._begun = time.monotonic()

    def complete(self, shard: Mapping[str, int], *, old: bool = False) -> None:
        """Count a shard that is done, skipped texts and all; `old`: by an earlier run."""
        n_texts = shard["n_texts"] + shard["n_skipped"]
        self._n_texts, self._n_tokens = self._n_texts + n_texts, self._n_tokens + shard["n_tokens"]
        self._n_old += n_texts * old
        self.within(0, 0)

    def note_space(self, n_stored: int, mean_length: float) -> None:
        """Note the bytes that the texts so far take, and their mean length in the source."""
        expected = self._n_total or self._n_bytes / mean_length
        self._space = n_stored / max(self._n_texts, 1), expected

    def within(self, n_texts: int, n_tokens: int) -> None:
        """Report how far the shard is that is being measured."""
        if self._on_progress is None:
            return
        done = self._n_texts + n_texts
        speed = (done - self._n_old) / max(time.monotonic() - self._begun, 1e-6)
        seconds_left = None
        if self._n_total is not None and speed > 0:
            seconds_left = max(0, self._n_total - done) / speed
        tokens = self._n_tokens + n_tokens
        space = self._space or (None, None)
        self._on_progress(Progress(done, self._n_total, tokens, speed, seconds_left, *space))


MANY_TEXTS = 1_000_000  # their rows take more room than most disks have to spare


def space_note(progress: Progress) -> str | None:
    """Suggest to keep no texts, where they are very many; "" where they are not.

    None before that can be told.
    """
    if progress.bytes_of_text is None or progress.n_expected is None:
        return None
    if progress.n_expected <= MANY_TEXTS:
        return ""
    return (
        f"of about {progress.n_expected:,.0f} texts this study will take "
        f"{of_bytes(progress.bytes_of_text * progress.n_expected)} of disk; with --no-texts, which "
        "keeps no examples and no search, a study of any length takes the same space"
    )
