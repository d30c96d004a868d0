"""Attention weights and their labels, checked before they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.web.labels import clean_all

F = TypeVar("F", bound=np.floating)
MASKED = "masked: this query cannot see this key"


def as_weights(pattern: Any, axes: int) -> NDArray[np.float32]:
    """Attention weights as float32 of that many axes, without a copy where possible.

    Raises:
        ShapeError: another number of axes, or none of something.
        ArgumentError: numbers outside [0, 1].
    """
    if isinstance(pattern, Tensor):
        pattern = pattern.detach().cpu().float().numpy()
    weights = np.asarray(pattern, dtype=np.float32)
    if weights.ndim != axes or not weights.size:
        raise ShapeError(f"Expected a pattern of {axes} axes, none empty; got {weights.shape}.")
    low, high = float(weights.min()), float(weights.max())
    if not (low >= 0.0 and high <= 1.01):  # NaN comes through in both ends
        raise ArgumentError(f"Attention weights lie in [0, 1]; got values from {low} to {high}.")
    return weights


def labelled_head(
    pattern: Any, query_labels: Sequence[str], key_labels: Sequence[str]
) -> tuple[NDArray[np.float32], list[str], list[str]]:
    """The weights (query, key) of one head, and the labels of its rows and columns, cleaned.

    Raises:
        ShapeError: not a matrix, or labels that do not fit it.
        ArgumentError: numbers outside [0, 1].
    """
    weights = as_weights(pattern, 2)
    rows = clean_all(query_labels, weights.shape[0], "queries")
    return weights, rows, clean_all(key_labels, weights.shape[1], "keys")


def where_visible(weights: NDArray[F], visible: Any, masked: float) -> NDArray[F]:
    """The weights, with the number `masked` wherever a query cannot see a key.

    Args:
        weights: (..., query, key); or what is made of them.
        visible: bool, of a shape that broadcasts to that; None: all are visible.
        masked: no weight: NaN, or a number below 0.

    Raises:
        ShapeError: a shape that does not.
    """
    if visible is None:
        return weights
    seen = np.asarray(visible, dtype=bool)
    if seen.shape != weights.shape[weights.ndim - seen.ndim :]:
        raise ShapeError(f"visible must be of shape {weights.shape}, got {seen.shape}.")
    return np.where(seen, weights, weights.dtype.type(masked))
