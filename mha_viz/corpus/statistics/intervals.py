"""Moments of means over texts, and sums of their independent units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Num

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
        """Count more texts; values are NaN where not defined."""
        defined = ~np.isnan(values)
        n = defined.sum(0).astype(float)
        wide = np.where(defined, values, 0).astype(float)
        mean = wide.sum(0) / np.maximum(n, 1)
        self.merge(Moments(n, mean, (np.where(defined, wide - mean, 0) ** 2).sum(0)))

    def merge(self, other: Moments) -> None:
        """Count the texts of other moments; to none of them are added as they are, bit for bit.

        Source: Chan, Golub and LeVeque 1979: no mean is taken from the squares of large numbers.
        """
        share, apart = other.n / np.maximum(self.n + other.n, 1), other.mean - self.mean
        self.squares += other.squares + apart**2 * self.n * share
        self.mean += apart * share
        self.n += other.n

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
        self.sums = np.zeros((n_columns, N_UNITS))
        self.counts = np.zeros((n_columns, N_UNITS))

    def add(self, units: Int[np.ndarray, "text"], values: Float[np.ndarray, "text column"]) -> None:
        """Count more texts, each with the number of its unit; values are NaN where not defined."""
        defined = ~np.isnan(values)
        np.add.at(self.sums.T, units % N_UNITS, np.where(defined, values, 0.0))
        np.add.at(self.counts.T, units % N_UNITS, defined)

    def merge(
        self,
        units: Int[np.ndarray, "unit"],
        sums: Float[np.ndarray, "column unit"],
        counts: Num[np.ndarray, "column unit"],
    ) -> None:
        """Add the sums over other texts in some of the units, ascending."""
        near = len(units) and units[-1] - units[0] == len(units) - 1  # then they need not be sought
        at = slice(int(units[0]), int(units[-1]) + 1) if near else units
        self.sums[:, at] += sums
        self.counts[:, at] += counts

    def jackknife(self) -> Jackknife:
        """Return each column's mean with what it is worth."""
        return jackknife(self.sums, self.counts)
