"""Masks of attention: what is added to the scores, and the rows that it leaves no key."""

import torch
from jaxtyping import Bool
from torch import Tensor


def visible(bias: Tensor) -> Bool[Tensor, "..."]:
    """Return which keys a query may see, by what was added to its scores.

    `bias` is mask and position bias, of any shape: bool (True = may attend), or floats, where
    numbers near their dtype's lowest forbid.
    """
    return bias if bias.dtype == torch.bool else bias > _forbidding(bias.dtype)


def additive_mask(mask: Tensor | None, causal: bool, query: Tensor, key: Tensor) -> Tensor | None:
    """Return mask and causality as one tensor to be added to the scores, or None."""
    bias = None
    if mask is not None and mask.dtype == torch.bool:
        bias = query.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)
    elif mask is not None and mask.dtype != query.dtype:
        # forbidding is relative to the mask's own dtype, and has to survive the conversion
        forbidden = mask <= _forbidding(mask.dtype)
        bias = mask.to(query.dtype).masked_fill(forbidden, -torch.inf)
    elif mask is not None:
        bias = mask
    if causal:
        future = query.new_full((query.shape[-2], key.shape[-2]), -torch.inf).triu(1)
        bias = future if bias is None else bias + future
    return bias


def _forbidding(dtype: torch.dtype) -> float:
    """Return the number at or below which an additive mask means "may not attend".

    Model libraries write finfo.min for -inf, and may have added a position bias to it.
    """
    return torch.finfo(dtype).min / 2


def fully_masked_rows(additive: Tensor) -> Bool[Tensor, "..."] | None:
    """Return which rows allow no key (..., query, 1); None if none is so.

    On a graphics card nothing is read back: every layer would have to wait for it.
    """
    best = additive.detach().amax(-1, keepdim=True)
    masked_rows = best <= _forbidding(additive.dtype)
    is_on_cpu = masked_rows.device.type == "cpu"
    return None if is_on_cpu and not masked_rows.any() else masked_rows


def keyless_rows(bias: Tensor | None, mask: Tensor | None) -> Bool[Tensor, "..."] | None:
    """Return the `fully_masked_rows` of a mask's bias; causality alone masks none of them."""
    return None if bias is None or mask is None else fully_masked_rows(bias)
