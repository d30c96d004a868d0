"""Moments of means over texts, and their 95 % intervals by drawing texts again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8


@dataclass
class Moments:
    """Moments of each column, over the texts that define it."""

    n: Float[np.ndarray, "column"]  # how many texts
    mean: Float[np.ndarray, "column"]  # over them; 0 where there is none
    squares: Float[np.ndarray, "column"]  # sum of the squared distances from the mean

    @classmethod
    def empty(cls, n_columns: int) -> Moments:
        """Begin with no texts."""
        return cls(*np.zeros((3, n_columns)))

    def add(self, values: Float[np.ndarray, "text column"]) -> None:
        """Count more texts; values are NaN where not defined.

        Source: Chan, Golub and LeVeque 1979: no mean is taken from the squares of large numbers.
        """
        known = ~np.isnan(values)
        n = known.sum(0).astype(float)
        wide = np.where(known, values, 0).astype(float)
        mean = wide.sum(0) / np.maximum(n, 1)
        squares = (np.where(known, wide - mean, 0) ** 2).sum(0)
        both, apart = np.maximum(self.n + n, 1), mean - self.mean
        self.squares += squares + apart**2 * self.n * n / both
        self.mean += apart * n / both
        self.n += n

    @property
    def std(self) -> Float[np.ndarray, "column"]:
        """The standard deviation; NaN of fewer than two texts."""
        variance = np.full(len(self.n), np.nan)
        np.divide(self.squares, self.n - 1, out=variance, where=self.n > 1)
        return np.sqrt(variance)


N_RESAMPLES = 1000
LOW, HIGH = 0.025, 0.975  # what lies between holds 95 % of the resamples

# How often a text comes into a resample: k times with the Poisson probability e^-1 / k!, as the
# bounds that a random number of 64 bits is compared with.
_CUMULATED = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(16)])
_BOUNDS = np.array([int(share * 2.0**64) for share in _CUMULATED], np.uint64)


def bootstrap_weights(texts: Sequence[str]) -> UInt8[np.ndarray, "resample text"]:
    """Draw how often each text comes into each resample, from Poisson(1), by its own hash.

    So the draw needs no number of texts beforehand, shards can be added up in any cut, and a text
    has the same weights in every study. Texts that are equal come and go together: a line that is
    copied a thousand times makes nothing more certain.

    Source: Poisson bootstrap, Hanley and MacGibbon 2006; Chamandy et al. 2012.

    >>> first, other, again = bootstrap_weights(["a", "b", "a"]).T
    >>> bool((first == again).all()), bool((first == other).all())
    (True, False)
    """
    drawn = np.empty((N_RESAMPLES, len(texts)), np.uint8)
    for place, text in enumerate(texts):
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        # Philox's own bits: numpy promises them for all versions, and its distributions for none.
        bits = np.random.Philox(key=int.from_bytes(digest[:16], "little")).random_raw(N_RESAMPLES)
        drawn[:, place] = np.searchsorted(_BOUNDS, bits, side="right")
    return drawn


class Resamples:
    """The mean of every column in every resample, added up shard by shard.

    A text in which a column is not defined counts for the other columns only.
    """

    def __init__(self, n_columns: int) -> None:
        self.sums = np.zeros((N_RESAMPLES, n_columns))
        self.counts = np.zeros((N_RESAMPLES, n_columns))

    def add(
        self,
        weights: UInt8[np.ndarray, "resample text"],
        values: Float[np.ndarray, "text column"],
    ) -> None:
        """Count more texts; values are NaN where not defined."""
        drawn, known = weights.astype(float), ~np.isnan(values)
        self.sums += drawn @ np.where(known, values, 0.0)
        partly = ~known.all(0)
        self.counts[:, ~partly] += drawn.sum(1)[:, None]
        self.counts[:, partly] += drawn @ known[:, partly].astype(float)

    def interval(
        self, n_texts: Float[np.ndarray, "column"]
    ) -> tuple[Float[np.ndarray, "column"], Float[np.ndarray, "column"]]:
        """Return the lower and the upper end of each column's mean.

        NaN where fewer than two different texts define it: one text, or copies of it, say nothing
        of how far another one would differ. Resamples that drew no text with that column are left
        out.
        """
        means = np.full_like(self.sums, np.nan)
        np.divide(self.sums, self.counts, out=means, where=self.counts > 0)
        # Copies come and go together: a resample of one text alone has all of them k times.
        alone = (self.counts % np.maximum(n_texts, 1) == 0).all(0)
        low, high = np.where(alone, np.nan, sorted_quantiles(means, (LOW, HIGH)))
        return low, high


def sorted_quantiles(
    values: Float[np.ndarray, "row column"], shares: tuple[float, ...]
) -> Float[np.ndarray, "share column"]:
    """Interpolate quantiles of each column without its NaNs; NaN where nothing is left.

    It is numpy's nanquantile, which takes columns with NaN one by one.

    >>> sorted_quantiles(np.array([[1.0, np.nan], [2.0, 5.0]]), (0.5,))
    array([[1.5, 5. ]])
    """
    ranked = np.sort(values, axis=0)  # NaN comes last
    n = (~np.isnan(ranked)).sum(0)
    found = np.full((len(shares), values.shape[1]), np.nan)
    for row, share in enumerate(shares):
        place = share * np.maximum(n - 1, 0)
        below = np.floor(place).astype(int)
        above = np.minimum(below + 1, np.maximum(n - 1, 0))
        if len(ranked):
            ends = (np.take_along_axis(ranked, at[None], 0)[0] for at in (below, above))
            low, high = (end.astype(float) for end in ends)
            found[row] = low + (high - low) * (place - below)
    return found
