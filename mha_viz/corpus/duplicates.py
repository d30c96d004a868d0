"""A set of texts that takes 8 bytes for each, to find those that occur again."""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import UInt64

_BYTES = (
    8  # of a text's hash: among a hundred million texts, two differ and share one in 1 of 3,700
)
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
        """Remember a text, and return whether it is new.

        Args:
            text: compared sign by sign, but for the number of spaces.
        """
        plain = " ".join(text.split()).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(plain, digest_size=_BYTES).digest()
        number = int.from_bytes(digest, "little")
        if number in self._recent or any(_holds(run, number) for run in self._runs):
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


def _holds(run: UInt64[np.ndarray, "hash"], number: int) -> bool:
    place = int(run.searchsorted(np.uint64(number)))
    return place < len(run) and int(run[place]) == number
