"""Metrics of a row's concentration: its largest weight, and how many keys hold its mass."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.metrics.checks import Pattern, check_pattern
from mha_viz.errors import ArgumentError


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
    pattern, wide = check_pattern(pattern)
    return pattern.amax(-1).mean(-1, dtype=wide)


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
    return row_keys_for_mass(pattern, share=share).mean(-1)


def row_keys_for_mass(pattern: Pattern, *, share: float = 0.9) -> Float[Tensor, "layer head query"]:
    """Count the keys of `keys_for_mass` for each row.

    >>> row_keys_for_mass(torch.tensor([[[[0.95, 0.05], [0.5, 0.5]]]]))
    tensor([[[1., 2.]]])
    """
    pattern, wide = check_pattern(pattern)
    if not 0 < share <= 1:
        raise ArgumentError(f"share must be in (0, 1], got {share}")
    n_light = torch.stack([_count_light_keys(layer.to(wide), share) for layer in pattern])
    return pattern.shape[-1] - n_light


def _count_light_keys(rows: Tensor, share: float) -> Tensor:
    """Count the lightest keys that hold no more than the rest of the mass, (head, query)."""
    rows = rows.detach()
    if rows.device.type == "cpu":
        # numpy sorts several times faster than torch, which keeps track of where each weight was
        cumulative = torch.from_numpy(np.sort(rows.numpy(), axis=-1)).cumsum_(-1)
    else:
        cumulative = rows.sort(-1).values.cumsum(-1)
    # of ten equal weights one is given up, though in floats 0.1 may come out above 1 - 0.9
    rest = (1 - share + 1e-5) * cumulative[..., -1:]
    count = torch.searchsorted(cumulative, rest, right=True).squeeze(-1).to(cumulative)
    return torch.where(cumulative[..., -1].isnan(), torch.nan, count)


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
