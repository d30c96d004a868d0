"""Patterns and z, of two layers and three heads if not told: random, or with known numbers."""

import torch
from torch import Tensor

LAYERS, HEADS, N, KEYS = 2, 3, 7, 11


def random_pattern(
    query: int = N,
    key: int | None = None,
    causal: bool = False,
    seed: int = 13,
    layers: int = LAYERS,
    heads: int = HEADS,
) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    raw = 2 * torch.randn(layers, heads, query, query if key is None else key, generator=dice)
    if causal:
        raw = raw.masked_fill(torch.ones(raw.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return raw.softmax(-1)


def random_z(query: int, d_head: int, layers: int = LAYERS, heads: int = HEADS) -> Tensor:
    dice = torch.Generator().manual_seed(13)
    return torch.randn(layers, heads, query, d_head, generator=dice) + 0.5


def uniform(query: int = N, key: int = N) -> Tensor:
    return torch.full((LAYERS, HEADS, query, key), 1 / key)


def head(*rows: list[float]) -> Tensor:
    return torch.tensor([[list(rows)]])
