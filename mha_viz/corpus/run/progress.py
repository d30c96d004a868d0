"""The progress of a study, and the space that one of very many texts will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from mha_viz.core.amounts import of_bytes
from mha_viz.core.reprs import count
from mha_viz.corpus.statistics.intervals import N_UNITS
from mha_viz.corpus.statistics.totals import ROWS, UNITS
from mha_viz.corpus.store.storage import read_manifest, read_shard, shard_folder


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


MANY = 1_000_000  # texts, above which their rows take more room than most disks have to spare


def space_note(folder: Path, n_texts: int | None) -> str | None:
    """Suggest to keep no texts, where they are very many; "" where they are not.

    None before the first part of the study in `folder` is written, by which the space, and without
    `n_texts` their number, is estimated.
    """
    first = read_shard(folder, 0)
    if first is None:
        return None
    n = first["n_texts"]
    many = _estimated(folder, n) if n_texts is None else n_texts
    if n == 0 or many <= MANY:
        return ""
    files: Mapping[str, int] = {Path(name).stem: size for name, size in first["files"].items()}
    rows = sum(files.get(name, 0) for name in ROWS)
    at_end, meanwhile = (size * many / n for size in (rows, sum(files.values()) + rows))
    sums = {name: size for name, size in files.items() if name not in ROWS}
    alone = sum(sums.values()) + sums[UNITS] * (N_UNITS / min(n, N_UNITS) - 1)
    return (
        f"of about {many:,} texts this study will take {of_bytes(at_end)} of disk "
        f"({of_bytes(meanwhile)} while it is made); with --no-texts, which "
        f"keeps no examples and no search, about {of_bytes(2 * alone)}"
    )


def _estimated(folder: Path, n: int) -> int:
    """Estimate the number of texts by the mean length of those in the first part."""
    files: list[dict[str, Any]] = read_manifest(folder)["source"]["files"]
    texts = pq.read_table(shard_folder(folder, 0) / "sentences.parquet", columns=["text"])["text"]
    length = (pc.sum(pc.binary_length(texts)).as_py() or 0) + n  # and the ends of lines
    return round(sum(file["size"] for file in files) * n / max(length, 1))
