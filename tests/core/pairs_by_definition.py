"""Likenesses of two heads one pair at a time: scipy, numpy's corrcoef, CKA written out."""

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


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def redundancy(a: np.ndarray, b: np.ndarray) -> float:
    norm = np.linalg.norm
    return float(norm(a @ b.T) / (norm(a) * norm(b)))


def cka(a: np.ndarray, b: np.ndarray) -> float:
    """Debiased: Song et al. 2012's estimator of HSIC, its three sums written out."""
    n = len(a)

    def hsic(x: np.ndarray, y: np.ndarray) -> float:
        k, m = x @ x.T, y @ y.T
        np.fill_diagonal(k, 0.0)
        np.fill_diagonal(m, 0.0)
        sums = k.sum() * m.sum() / ((n - 1) * (n - 2))
        return float((k * m).sum() + sums - 2 / (n - 2) * (k @ m).sum()) / (n * (n - 3))

    return hsic(a, b) / math.sqrt(hsic(a, a) * hsic(b, b))


def cka_biased(a: np.ndarray, b: np.ndarray) -> float:
    n = len(a)
    centring = np.eye(n) - np.ones((n, n)) / n

    def hsic(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.trace(x @ x.T @ centring @ y @ y.T @ centring) / (n - 1) ** 2)

    return hsic(a, b) / math.sqrt(hsic(a, a) * hsic(b, b))
