"""Inputs of measures between two heads, of prime sizes, and what is as near as rounding."""

from collections.abc import Callable

import torch
from torch import Tensor

from mha_viz.core.metrics import output_pairs, pairs

LAYERS, HEADS, N, KEYS, D_HEAD = 3, 5, 11, 7, 13
ALL = LAYERS * HEADS
OF_PATTERN = (pairs.hellinger, pairs.jensen_shannon)
OF_Z = (
    output_pairs.correlation,
    output_pairs.redundancy,
    output_pairs.cka,
    output_pairs.cka_biased,
)


def random_pattern(query: int = N, key: int = KEYS, seed: int = 13) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    return (torch.randn(LAYERS, HEADS, query, key, generator=dice) * 2).softmax(-1)


def random_z(query: int = N, d_head: int = D_HEAD, seed: int = 13) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(LAYERS, HEADS, query, d_head, generator=dice) + 0.5


def inputs(function: Callable[..., Tensor], seed: int = 13) -> Tensor:
    return random_pattern(seed=seed) if function in OF_PATTERN else random_z(seed=seed)
