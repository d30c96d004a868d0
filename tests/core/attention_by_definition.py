"""Inputs for tests of the attention function, and attention row by row in plain Python."""

import math

import torch
from torch import Tensor

HEADS, QUERY, KEY, D_HEAD, D_VALUE = 3, 5, 7, 11, 13
LOWEST = torch.finfo(torch.float32).min
NEVER = -torch.inf


def qkv(
    *batch: int,
    heads: int = HEADS,
    kv_heads: int | None = None,
    query: int = QUERY,
    key: int = KEY,
    width: int = D_HEAD,
    value_width: int | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 17,
) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    kv_heads = heads if kv_heads is None else kv_heads
    value_width = width if value_width is None else value_width
    return (
        torch.randn(*batch, heads, query, width).to(dtype),
        torch.randn(*batch, kv_heads, key, width).to(dtype),
        torch.randn(*batch, kv_heads, key, value_width).to(dtype),
    )


def by_definition(
    query: Tensor, key: Tensor, value: Tensor, **how: object
) -> tuple[Tensor, Tensor]:
    """Row by row in Python, in float64: slow and plain, shares nothing with the code under test."""
    query, key, value = query.double(), key.double(), value.double()
    mask, scale, cap = how.get("mask"), how.get("scale"), how.get("softcap")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    pattern = torch.zeros(*query.shape[:-1], key.shape[-2], dtype=torch.float64)
    group = query.shape[-3] // key.shape[-3]
    for place in torch.cartesian_prod(*(torch.arange(n) for n in query.shape[:-1])).tolist():
        *batch, head, i = place
        weights = []
        for j in range(key.shape[-2]):
            score = scale * float(query[tuple(place)] @ key[(*batch, head // group, j)])
            score = cap * math.tanh(score / cap) if cap else score
            allowed = not (how.get("causal") and j > i)
            if mask is not None:
                entry = mask.expand(pattern.shape)[(*place, j)]
                allowed = allowed and bool(
                    entry if mask.dtype == torch.bool else entry > LOWEST / 2
                )
                score += 0.0 if mask.dtype == torch.bool else float(entry)
            weights.append(math.exp(score) if allowed else 0.0)
        total = sum(weights) or 1.0
        pattern[tuple(place)] = torch.tensor([w / total for w in weights])
    return pattern @ value.repeat_interleave(group, -3), pattern
