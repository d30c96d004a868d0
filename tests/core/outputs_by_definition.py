"""Random W_O for tests of heads' outputs, and the outputs written out in full."""

import math

import numpy as np
import torch
from torch import Tensor

from tests.core import patterns
from tests.core.patterns import HEADS, LAYERS

N, D_HEAD, D_MODEL = 11, 5, 17
Weights = tuple[Tensor, ...]


def random_z(query: int = N, d_head: int = D_HEAD) -> Tensor:
    return patterns.random_z(query, d_head)


def weights(d_head: int = D_HEAD, d_model: int = D_MODEL, seed: int = 7) -> Weights:
    dice = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(HEADS, d_head, d_model, generator=dice) for _ in range(LAYERS))


def materialised(z: Tensor, W_O: Weights) -> Tensor:
    return torch.einsum("lhqd,lhdm->lhqm", z.double(), torch.stack(W_O).double())


def rank(rows: np.ndarray) -> float:
    """Effective rank by numpy's SVD; what is below 1e-7 of the largest is rounding."""
    singular = np.linalg.svd(rows, compute_uv=False)
    p = singular[singular > singular.max() * 1e-7] / singular.sum()
    return math.exp(-(p * np.log(p)).sum())


def faint_directions(faint: float, width: int) -> tuple[Tensor, Weights]:
    """z of one head with one strong direction, the others `faint` times as strong, and its W_O."""
    dice = torch.Generator().manual_seed(3)
    strength = torch.full((width,), faint)
    strength[0] = 1.0
    z = torch.linalg.qr(torch.randn(2 * width, width, generator=dice)).Q * strength
    W_O = torch.linalg.qr(torch.randn(2 * width, width, generator=dice)).Q.T
    return z[None, None], (W_O[None],)
