"""What is left of attention weights when some tokens are taken away."""

from __future__ import annotations

import torch
from torch import Tensor

_NOTHING = 1e-6  # a row's mass below this is a softmax's rounding; scaled up, it would show noise


def what_is_left(
    layer: Tensor, rows: list[int], columns: list[int], renormalize: bool
) -> tuple[Tensor, Tensor]:
    """These rows and columns of a layer's weights, and the share of each row that is not there."""
    before = layer[:, rows]
    left = before[..., columns]
    mass, rest = before.sum(-1), left.sum(-1)
    gone = 1 - rest / mass.clamp_min(_NOTHING)
    if renormalize:
        scaled = left / rest.clamp_min(_NOTHING)[..., None]
        left = torch.where(rest[..., None] > _NOTHING, scaled, 0.0)
    return left, torch.where(mass > _NOTHING, gone, 0.0).clamp(0.0, 1.0)
