"""Attention weights as one long table, a row for each cell, as data frames like it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor


def long_table(
    pattern: Float[Tensor, "layer head query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
) -> pd.DataFrame:
    """A row for each weight: see `AttentionRecord.to_frame`.

    Args:
        pattern: (layer, head, query, key).
        query_labels: a text for each query.
        key_labels: a text for each key.
    """
    small = np.int16 if max(pattern.shape) < 2**15 else np.int32
    axes = np.indices(tuple(pattern.shape), dtype=small)
    layer, head, query, key = (axis.ravel() for axis in axes)
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "query": query,
            "key": key,
            "query_token": _labels(query_labels, query),
            "key_token": _labels(key_labels, key),
            "weight": pattern.cpu().numpy().ravel(),
        }
    )


def _labels(labels: Sequence[str], places: NDArray[np.integer]) -> pd.Categorical[str]:
    """The label at each place; every label is stored once, and equal ones are one category."""
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    numbers = np.array([codes[label] for label in labels])
    return pd.Categorical.from_codes(numbers[places], pd.Index(list(codes)))
