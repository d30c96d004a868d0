"""Metrics of a row's concentration: its largest weight, and how many keys hold its mass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.metrics.blocks import RowBlock
from mha_viz.core.metrics.checks import Pattern
from mha_viz.core.metrics.reduction import reduced, row_mean
from mha_viz.errors import ArgumentError

_GROUP = 16  # sorted weights that are added up at once


@row_mean(lambda block: block.strongest)
def confidence(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the largest weight in each row: mean_q max_k A.

    Args:
        pattern: (layer, head, query, key).

    Returns:
        (layer, head), probability in [1 / key, 1], less where rows are all zero.

    Raises:
        ShapeError, DTypeError: not a pattern.

    Source: Voita et al. 2019, who leave out the end-of-sentence token; we keep it.

    >>> confidence(torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]]))
    tensor([[0.6250]])
    """
    return reduced(confidence, pattern)


def _row_keys(block: RowBlock, share: float = 0.9) -> Float[Tensor, "batch head query"]:
    """Count the keys of `keys_for_mass` for each row."""
    rows = block.pattern.detach()
    # of ten equal weights one is given up, though in floats 0.1 may come out above 1 - 0.9
    rest = 1 - share + 1e-5
    if rows.device.type == "cpu":
        n_light = torch.from_numpy(_count_light(rows.numpy(), rest))
    else:
        held = rows.sort(-1).values.cumsum(-1)
        n_light = torch.searchsorted(held, rest * held[..., -1:], right=True).squeeze(-1)
    return (rows.shape[-1] - n_light + 0 * block.mass).to(rows.dtype)  # NaN stays NaN


def _count_light(rows: NDArray[Any], rest: float) -> NDArray[Any]:
    """Count the lightest keys of each row that hold no more than this share of its mass."""
    n_key = rows.shape[-1]
    padding = -n_key % _GROUP
    ordered = np.zeros((*rows.shape[:-1], n_key + padding), rows.dtype)
    ordered[..., padding:] = rows
    # Weights are not negative, so their bits are in the same order, and sorted in less time.
    ordered.view(f"i{rows.itemsize}").sort(axis=-1)
    groups = ordered.reshape(*rows.shape[:-1], -1, _GROUP)
    held = (groups @ np.ones(_GROUP, rows.dtype)).cumsum(-1)
    most = rest * held[..., -1:]
    # whole groups first, then within the one that holds too much
    whole = (held <= most).sum(-1, keepdims=True)
    at = np.minimum(whole, held.shape[-1] - 1)
    before = np.where(whole > 0, np.take_along_axis(held, np.maximum(whole - 1, 0), -1), 0)
    within = before + np.take_along_axis(groups, at[..., None], -2)[..., 0, :].cumsum(-1)
    more = np.where(whole == at, (within <= most).sum(-1, keepdims=True), 0)
    return (_GROUP * whole + more - padding)[..., 0]


@row_mean(_row_keys)
def keys_for_mass(pattern: Pattern, *, share: float = 0.9) -> Float[Tensor, "layer head"]:
    """Average the number of keys that hold `share` of a row's mass, the heaviest first.

    Args:
        pattern: (layer, head, query, key).
        share: in (0, 1].

    Returns:
        (layer, head), keys in [1, key]; a row of zeros counts as 0.

    Raises:
        ShapeError, DTypeError: not a pattern.
        ArgumentError: if share is not in (0, 1].

    Source: the size of the smallest set with a given mass, as in nucleus sampling (Holtzman et
    al. 2020).

    >>> keys_for_mass(torch.tensor([[[[0.95, 0.05], [0.5, 0.5]]]]))
    tensor([[1.5000]])
    """
    if not 0 < share <= 1:
        raise ArgumentError(f"share must be in (0, 1], got {share}")
    return reduced(keys_for_mass, pattern, share=share)


def strongest_other(
    weights: Float[Tensor, "*batch head query key"],
) -> Int[Tensor, "*batch head query"]:
    """Return for each word the other one with the most weight; -1 for ties and for none.

    >>> strongest_other(torch.tensor([[[[0.9, 0.1, 0.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.4]]]]))
    tensor([[[ 1, -1, -1]]])
    """
    itself = torch.eye(weights.shape[-1], dtype=torch.bool, device=weights.device)
    others = weights.masked_fill(itself, -1.0)
    most, place = others.max(-1)
    shared = (others == most[..., None]).sum(-1) > 1
    return place.masked_fill(shared | (most <= 0), -1)
