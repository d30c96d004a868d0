"""The scores that heads reach by chance: their own weights, moved to other keys."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.metrics.chance import RATE
from mha_viz.core.metrics.table import head_table

N_ROTATIONS = 20
_AT_ONCE = 2**21  # numbers that are made of rotated rows


def rotated_scores(
    pattern: Float[Tensor, "layer head query key"],
    seen: Bool[Tensor, "layer query key"],
    heads: Bool[Tensor, "layer head"],
    metric: str,
    least: float = -torch.inf,
    **about: Any,
) -> Float[Tensor, "rotation layer head"]:
    """Compute a score of patterns whose keys are rotated within what each query may see.

    A head that looks at one key, at one distance, or at some few keys does so after a rotation as
    well, at other places. Rotation r of a query that may see m keys moves the weight of each to
    the key 1 + floor((r + 1/2)(m - 1) / 20) places further on among them, and those beyond the last
    to the first ones.

    Args:
        pattern: of self-attention.
        seen: True = the query may see the key.
        heads: True = to be rotated.
        metric: key of a metric that is linear in the weights, such as "first_token" or "distance".
        least: heads that reach less than this in every rotation may be left out.
        about: `ids` and `is_special` as for `head_table`, where they are known.

    Returns:
        The metric's own unit; 20 rotations. NaN for heads that are left out or attend to nothing,
        and where the metric does not apply.

    Source: the permutation of labels of Tusher, Tibshirani and Chu 2001 (SAM), as a rotation: it
    keeps what neighbouring keys have in common.
    """
    found = pattern.new_full((N_ROTATIONS, *pattern.shape[:2]), torch.nan)
    strongest = pattern.amax(-1)
    heads = heads & (strongest > 0).any(-1)
    for layers, mask in _masks(seen):
        weight = _weight(metric, mask, about)
        if weight is None:
            continue
        # A row gives a key no more than its largest weight, wherever that stands.
        reaches = strongest @ weight.abs().sum(-1).to(pattern) >= least
        own = heads & reaches & torch.isin(torch.arange(len(seen)), torch.tensor(layers))[:, None]
        if own.any():
            found[:, own] = _product(pattern[own], weight.to(pattern), mask)
    return found


def rotations(
    weight: Float[Tensor, "query key"], seen: Bool[Tensor, "query key"]
) -> Float[Tensor, "rotation query key"]:
    """Return what a key counts once its weight is moved: `rotated_scores` as a linear form."""
    n_seen = seen.sum(-1, keepdim=True)
    place = seen.cumsum(-1) - 1
    key_at = torch.sort(~seen, dim=-1, stable=True).indices  # the keys that are seen come first
    at = (torch.arange(N_ROTATIONS, device=seen.device)[:, None, None] + 0.5) / N_ROTATIONS
    moved = place + 1 + (at * (n_seen - 1)).long()
    moved -= n_seen * (moved >= n_seen)
    in_order = (weight * seen).gather(-1, key_at)
    return in_order.expand(N_ROTATIONS, -1, -1).gather(-1, moved.clamp(min=0)) * seen


def least_beyond_chance(
    scores: Float[Tensor, "head"], rotated: Float[Tensor, "..."]
) -> float | None:
    """Return the least score at which at most 5 % of the heads are expected by chance.

    Args:
        scores: of the heads that reach a label's threshold; higher is better.
        rotated: of all heads that reach it in any of the 20 rotations.

    Returns:
        None where there is none: chance explains as many. Heads at or above a score t are
        expected by chance as often as rotations reach t, on average over them, the pattern as it
        stands counted with them (Phipson and Smyth 2010).
    """
    ordered = scores.sort(descending=True).values
    n_found = (scores >= ordered[:, None]).sum(-1)
    n_rotated = (rotated.flatten() >= ordered[:, None]).sum(-1)
    rate = (n_rotated + 1) / (N_ROTATIONS + 1) / n_found
    kept = ordered[rate <= RATE]
    return float(kept.min()) if len(kept) else None


def _product(
    pattern: Float[Tensor, "head query key"],
    weight: Float[Tensor, "query key"],
    seen: Bool[Tensor, "query key"],
) -> Float[Tensor, "rotation head"]:
    """Return the sum of all weights by what each counts after a rotation, some rows at a time."""
    found = pattern.new_zeros((N_ROTATIONS, len(pattern)))
    rows = max(1, _AT_ONCE // (N_ROTATIONS * len(weight)))
    parts = (weight.split(rows), seen.split(rows), pattern.split(rows, dim=1))
    for counts, mask, part in zip(*parts, strict=True):
        found += rotations(counts, mask).flatten(1) @ part.flatten(1).mT
    return found


def _masks(seen: Bool[Tensor, "layer query key"]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield each different mask with its layers."""
    left = list(range(len(seen)))
    while left:
        same_mask = [layer for layer in left if torch.equal(seen[layer], seen[left[0]])]
        yield same_mask, seen[left[0]]
        left = [layer for layer in left if layer not in same_mask]


def _weight(
    metric: str, seen: Bool[Tensor, "query key"], about: dict[str, Any]
) -> Float[Tensor, "query key"] | None:
    """Return what each weight counts in a metric that is linear in them: its gradient."""
    with torch.inference_mode(False), torch.enable_grad():
        uniform = (seen / seen.sum(-1, keepdim=True).clamp(min=1))[None, None].requires_grad_()
        found = head_table(uniform, allowed=seen, only=(metric,), **about)
        if metric not in found:
            return None
        (gradient,) = torch.autograd.grad(found[metric].sum(), uniform)
    return gradient[0, 0]
