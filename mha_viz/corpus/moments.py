"""Count, mean and spread of many columns, text by text, without holding the texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass
class Moments:
    """Of each column, over the texts that define it.

    Args:
        n: how many texts.
        mean: over them; 0 where there is none.
        squares: sum of the squared distances from the mean.
    """

    n: Float[np.ndarray, "column"]
    mean: Float[np.ndarray, "column"]
    squares: Float[np.ndarray, "column"]

    @classmethod
    def none(cls, n_columns: int) -> Moments:
        """Of no texts yet."""
        return cls(*np.zeros((3, n_columns)))

    def add(self, values: Float[np.ndarray, "text column"]) -> None:
        """Count more texts.

        Args:
            values: NaN where not defined.

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
        """Standard deviation; NaN of fewer than two texts."""
        variance = np.full(len(self.n), np.nan)
        np.divide(self.squares, self.n - 1, out=variance, where=self.n > 1)
        return np.sqrt(variance)
