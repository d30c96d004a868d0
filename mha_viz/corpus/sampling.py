"""A fair sample of a stream, drawn in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from heapq import nsmallest
from typing import TypeVar

T = TypeVar("T")


def fair_sample(stream: Iterable[T], size: int, seed: int) -> list[T]:
    """So many things of a stream, every choice of them equally likely, in the stream's order.

    A hash of the seed and of a thing's place puts the stream into a random order, and the first
    ones of that order are drawn (a bottom-k sample; Cohen and Kaplan 2007, "Summarizing data using
    bottom-k sketches"). So a seed draws the same on every machine, and a larger sample contains the
    smaller one. No more than `size` things are held.

    Args:
        stream: what to draw from.
        size: of the sample, 1 or more; of a shorter stream all is drawn.
        seed: any whole number.

    >>> fair_sample("abcdefghijklmnopqrstuvwxyz", size=5, seed=0)
    ['h', 'o', 'p', 'u', 'w']
    """

    def rank(numbered: tuple[int, T]) -> bytes:
        return hashlib.blake2b(f"{seed} {numbered[0]}".encode(), digest_size=8).digest()

    drawn = sorted(nsmallest(size, enumerate(stream), key=rank), key=lambda numbered: numbered[0])
    return [thing for _, thing in drawn]
