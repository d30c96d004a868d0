"""Matrices that are too large for a chart, as cells of equal size that say so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

S = TypeVar("S", bound=np.generic)
MOST = 512  # rows and columns of a chart; more would take its browser seconds and tens of MB


@dataclass(frozen=True, eq=False)
class Pooled:
    """The number that stands for each cell: the one furthest from 0 among `side` x `side`."""

    side: int  # 1 where nothing had to be pooled
    # the place of that number in the flattened matrix, (row, column)
    at: Int[np.ndarray, "row column"]

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "query key"], most: int = MOST) -> "Pooled":
        """Pool a matrix to at most that many rows and columns; NaN gives way to numbers.

        >>> Pooled.of(np.array([[1.0, -3.0], [np.nan, 2.0]]), most=1).at
        array([[1]])
        """
        queries, keys = matrix.shape
        side = -(-max(matrix.shape) // most)
        if side == 1:
            return cls(1, np.arange(matrix.size).reshape(matrix.shape))
        rows, columns = -(-queries // side), -(-keys // side)
        size = np.full((rows * side, columns * side), -2.0, dtype=np.float32)
        size[:queries, :keys] = np.nan_to_num(np.abs(matrix), nan=-1.0)
        blocks = size.reshape(rows, side, columns, side).swapaxes(1, 2).reshape(rows, columns, -1)
        down, across = np.divmod(blocks.argmax(-1), side)
        down += side * np.arange(rows)[:, None]
        across += side * np.arange(columns)
        return cls(side, down * keys + across)

    def take(self, matrix: NDArray[S]) -> NDArray[S]:
        """Return the numbers at these places of a matrix of the same shape."""
        return matrix if self.side == 1 else matrix.ravel()[self.at]

    def names(self, labels: Sequence[str]) -> list[str]:
        """Return the cells' names: the first and the last token of each.

        >>> Pooled(2, np.zeros((2, 2), int)).names(["a", "b", "c"])
        ['a … b', 'c']
        """
        if self.side == 1:
            return list(labels)
        starts = range(0, len(labels), self.side)
        groups = [labels[start : start + self.side] for start in starts]
        return [g[0] if len(g) == 1 else f"{g[0]} … {g[-1]}" for g in groups]

    @property
    def note(self) -> str:
        """The meaning of a cell in words; "" where it is one number."""
        side = self.side
        return "" if side == 1 else f"each cell is the largest of {side} × {side}"
