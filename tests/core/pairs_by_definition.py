"""Distances between two heads, one pair at a time, in numpy and scipy."""

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor


def looped(heads: Tensor, formula: Callable[[np.ndarray, np.ndarray], float]) -> Tensor:
    every = heads.double().flatten(0, 1).numpy()
    return torch.tensor([[formula(a, b) for b in every] for a in every], dtype=torch.float64)


def hellinger(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a / a.sum(-1, keepdims=True), b / b.sum(-1, keepdims=True)  # as exactly as scipy does
    return math.sqrt(max(0.0, 1 - np.sqrt(a * b).sum(-1).mean()))


def jensen_shannon(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean([jensenshannon(p, q) ** 2 for p, q in zip(a, b, strict=True)]))
