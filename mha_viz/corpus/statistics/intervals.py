"""Moments of means over texts, and sums of their independent units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from mha_viz.core.metrics.units import Jackknife, jackknife


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


N_UNITS = 1024  # that are kept apart; of more, as many take turns in each


class UnitSums:
    """The sum and count of every column in every unit, over the texts that define it."""

    def __init__(self, n_columns: int) -> None:
        self.sums = np.zeros((N_UNITS, n_columns))
        self.counts = np.zeros((N_UNITS, n_columns))

    def add(self, units: Int[np.ndarray, "text"], values: Float[np.ndarray, "text column"]) -> None:
        """Count more texts, each with the number of its unit; values are NaN where not defined."""
        known = ~np.isnan(values)
        for place, value, there in zip(units % N_UNITS, values, known, strict=True):
            self.sums[place] += np.where(there, value, 0.0)
            self.counts[place] += there

    def jackknife(self) -> Jackknife:
        """Return each column's mean with what it is worth."""
        return jackknife(self.sums.T, self.counts.T)
