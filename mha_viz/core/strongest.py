"""Which word, of all others, a word looks at the most."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def strongest_other(
    weights: Float[Tensor, "*batch head query key"],
) -> Int[Tensor, "*batch head query"]:
    """For each word the other one with the most weight; -1 where two share it, or none has any.

    Args:
        weights: (..., head, query, key), of the words that compete, and no others.

    >>> strongest_other(torch.tensor([[[[0.9, 0.1, 0.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.4]]]]))
    tensor([[[ 1, -1, -1]]])
    """
    itself = torch.eye(weights.shape[-1], dtype=torch.bool, device=weights.device)
    others = weights.masked_fill(itself, -1.0)
    most, place = others.max(-1)
    shared = (others == most[..., None]).sum(-1) > 1
    return place.masked_fill(shared | (most <= 0), -1)
