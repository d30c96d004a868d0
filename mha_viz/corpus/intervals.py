"""How sure a mean over texts is: 95 % intervals by drawing the texts again (Poisson bootstrap)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

N_RESAMPLES = 1000
LOW, HIGH = 0.025, 0.975  # what lies between holds 95 % of the resamples

# How often a text comes into a resample: k times with the Poisson probability e^-1 / k!, as the
# bounds that a random number of 64 bits is compared with.
_CUMULATED = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(16)])
_BOUNDS = np.array([int(share * 2.0**64) for share in _CUMULATED], np.uint64)


def text_weights(texts: Sequence[str]) -> UInt8[np.ndarray, "resample text"]:
    """How often each text comes into each resample: drawn from Poisson(1), by the text's own hash.

    So the draw needs no number of texts beforehand, shards can be added up in any cut, and a text
    has the same weights in every study. Texts that are equal come and go together: a line that is
    copied a thousand times makes nothing more certain.

    Args:
        texts: of a shard.

    Source: Poisson bootstrap, Hanley and MacGibbon 2006; Chamandy et al. 2012.

    >>> first, other, again = text_weights(["a", "b", "a"]).T
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

    Attributes:
        sums, counts: (resample, column), of the values that are defined.
    """

    def __init__(self, n_columns: int) -> None:
        self.sums = np.zeros((N_RESAMPLES, n_columns))
        self.counts = np.zeros((N_RESAMPLES, n_columns))

    def add(
        self,
        weights: UInt8[np.ndarray, "resample text"],
        values: Float[np.ndarray, "text column"],
    ) -> None:
        """Count more texts.

        Args:
            weights: of `text_weights`.
            values: NaN where not defined.
        """
        drawn, known = weights.astype(float), ~np.isnan(values)
        self.sums += drawn @ np.where(known, values, 0.0)
        partly = ~known.all(0)
        self.counts[:, ~partly] += drawn.sum(1)[:, None]
        self.counts[:, partly] += drawn @ known[:, partly].astype(float)

    def interval(
        self, n_texts: Float[np.ndarray, "column"]
    ) -> tuple[Float[np.ndarray, "column"], Float[np.ndarray, "column"]]:
        """The lower and the upper end of each column's mean.

        NaN where fewer than two different texts define it: one text, or copies of it, say nothing
        of how far another one would differ. Resamples that drew no text with that column are left
        out.

        Args:
            n_texts: how many texts define each column.
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
    """Quantiles of each column without its NaNs, interpolated; NaN where nothing is left.

    As numpy's nanquantile, which takes columns with NaN one by one.

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
