"""Fair samples of a stream, and the texts of a source that occur again."""

import hashlib
from collections.abc import Iterable
from heapq import nsmallest
from typing import TypeVar

import numpy as np
from jaxtyping import UInt64

T = TypeVar("T")


def fair_sample(stream: Iterable[T], size: int, seed: int) -> list[T]:
    """Draw things of a stream, every choice of them equally likely, in the stream's order.

    A hash of the seed and of a thing's place puts the stream into a random order, and the first
    ones of that order are drawn (a bottom-k sample; Cohen and Kaplan 2007, "Summarizing data using
    bottom-k sketches"). So a seed draws the same on every machine, and a larger sample contains the
    smaller one. No more than `size` things are held.

    >>> fair_sample("abcdefghijklmnopqrstuvwxyz", size=5, seed=0)
    ['h', 'o', 'p', 'u', 'w']
    """

    def rank(numbered: tuple[int, T]) -> bytes:
        return hashlib.blake2b(f"{seed} {numbered[0]}".encode(), digest_size=8).digest()

    drawn = sorted(nsmallest(size, enumerate(stream), key=rank), key=lambda numbered: numbered[0])
    return [element for _, element in drawn]


# Bytes of a text's hash: among a hundred million texts, two differ and share one in 1 of 3,700.
_BYTES = 8
_RECENT = 1 << 16  # hashes in a set of Python, which takes ten times the space


class SeenTexts:
    """The texts of a source so far, as hashes.

    >>> seen = SeenTexts()
    >>> [seen.add(text) for text in ("It slept.", "It ran.", "It  slept. ")]
    [True, True, False]
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        # sorted, each longer than the next, so that a text is merged a few times and no more
        self._runs: list[UInt64[np.ndarray, "hash"]] = []

    def add(self, text: str) -> bool:
        """Remember a text, and return whether it is new; the number of spaces does not count."""
        plain = " ".join(text.split()).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(plain, digest_size=_BYTES).digest()
        number = int.from_bytes(digest, "little")
        if number in self._recent or any(_contains(run, number) for run in self._runs):
            return False
        self._recent.add(number)
        if len(self._recent) == _RECENT:
            self._merge()
        return True

    def _merge(self) -> None:
        run = np.fromiter(self._recent, np.uint64, len(self._recent))
        self._recent = set()
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.concatenate([self._runs.pop(), run])
        run.sort()
        self._runs.append(run)


def _contains(run: UInt64[np.ndarray, "hash"], number: int) -> bool:
    index = int(run.searchsorted(np.uint64(number)))
    return index < len(run) and int(run[index]) == number
