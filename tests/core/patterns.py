"""Patterns of two layers and three heads: random ones, and ones whose numbers are known."""

import torch
from torch import Tensor

LAYERS, HEADS, N, KEYS = 2, 3, 7, 11


def random_pattern(
    query: int = N, key: int | None = None, causal: bool = False, seed: int = 13
) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    shape = (LAYERS, HEADS, query, query if key is None else key)
    raw = 2 * torch.randn(shape, generator=dice)
    if causal:
        raw = raw.masked_fill(torch.ones(raw.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return raw.softmax(-1)


def uniform(query: int = N, key: int = N) -> Tensor:
    return torch.full((LAYERS, HEADS, query, key), 1 / key)


def head(*rows: list[float]) -> Tensor:
    return torch.tensor([[list(rows)]])
