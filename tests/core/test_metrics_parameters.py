"""Heads compared by their weights, against materialised products, scipy and plain loops."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from mha_viz.core.metrics.parameters import (
    cosine,
    diversity,
    product_cosine,
    product_overlap,
    subspace_overlap,
)
from mha_viz.errors import ArgumentError, DTypeError, ShapeError
from tests.making.comparing import close

LAYERS, HEADS, D_MODEL, D_HEAD = 2, 3, 13, 5
PAIRWISE = {
    "cosine": cosine,
    "product_cosine": lambda weights: product_cosine(weights, [w.flip(-1) * 2 for w in weights]),
    "subspace_overlap": subspace_overlap,
}


def draw(seed: int = 7, d_model: int = D_MODEL, layers: int = LAYERS) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(layers, HEADS, d_model, D_HEAD, generator=generator))


def heads_of(weights: list[Tensor]) -> list[np.ndarray]:
    """All heads in order, in double precision."""
    return [head.double().numpy() for layer in weights for head in layer]


def table(heads: list, measure) -> np.ndarray:
    return np.array([[measure(a, b) for b in heads] for a in heads])


def angle_cosine(a: np.ndarray, b: np.ndarray) -> float:
    return (a * b).sum() / math.sqrt((a**2).sum() * (b**2).sum())


# -- against other ways to the same number -------------------------------------------------------


def test_product_cosine_where_the_product_is_nearly_nothing():
    """Factors that all but cancel: the small rest is still compared exactly."""
    g = torch.Generator().manual_seed(5)
    left, right = (torch.randn(2, D_MODEL, 2, generator=g) for _ in "ab")
    left[:, :, 1], right[:, :, 1] = left[:, :, 0], -right[:, :, 0]
    right[:, :, 1] += 1e-3 * torch.randn(2, D_MODEL, generator=g)
    products = [a @ b.T for a, b in zip(heads_of([left]), heads_of([right]), strict=True)]
    close(product_cosine([left], [right]), table(products, angle_cosine), atol=2e-3)
    wide = product_cosine([left.double()], [right.double()])
    close(wide, table(products, angle_cosine), atol=1e-10, rtol=0)


# -- what must hold ------------------------------------------------------------------------------


def test_a_head_of_lower_rank_spans_what_it_spans():
    weights = torch.randn(3, D_MODEL, D_HEAD)
    weights[1, :, 2:] = weights[1, :, :2] @ torch.randn(2, 3)  # two directions
    weights[2] = weights[0] @ torch.randn(D_HEAD, 1) @ torch.randn(1, D_HEAD)  # one of head 0
    got = subspace_overlap([weights])
    close(got.diagonal(), torch.ones(3))
    close(got[0, 2], 1.0)  # it lies in head 0's
    basis = scipy.linalg.orth(weights[1].double().numpy(), rcond=1e-5)
    assert basis.shape[1] == 2
    angles = scipy.linalg.subspace_angles(basis, weights[0].double().numpy())
    close(got[0, 1], (np.cos(angles) ** 2).mean())


def test_heads_wider_than_the_model_span_all_of_it():
    weights = torch.randn(2, 3, D_HEAD)
    close(subspace_overlap([weights]), torch.ones(2, 2))
    products = heads_of([weights @ weights.flip(0).mT])
    close(product_cosine([weights], [weights.flip(0)]), table(products, angle_cosine))


# -- what is not defined -------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRWISE)
def test_a_head_of_zeros_has_no_direction(name):
    weights = draw()
    full = PAIRWISE[name](weights)
    weights[1][2] = 0.0
    got = PAIRWISE[name](weights)
    assert got[5].isnan().all() and got[:, 5].isnan().all()
    close(got[:5, :5], full[:5, :5])
    assert diversity(weights[1]).isnan() and not diversity(weights[0]).isnan()


def test_a_product_of_zero_has_no_direction():
    left, right = draw(), draw(11)
    left[0][1] = torch.ones(D_MODEL, D_HEAD)
    right[0][1] = torch.arange(D_HEAD) - 2.0  # sums to zero
    for got in (product_cosine(left, right), product_overlap(left, right)):
        assert got[1].isnan().all() and got[:, 1].isnan().all()
        rest = [0, 2, 3, 4, 5]
        assert not got[rest][:, rest].isnan().any()


def test_random_subspaces_overlap_by_chance():
    weights = [torch.randn(12, 257, 31) for _ in range(2)]
    off = ~torch.eye(24, dtype=torch.bool)
    assert subspace_overlap(weights)[off].mean().item() == pytest.approx(31 / 257, rel=0.02)


# -- what is wrong is said -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cosine([]), ArgumentError, "weights must hold at least one layer"),
        (lambda: cosine([torch.ones(3, 5)]), ShapeError, r"\(head, d_model, d_head\).*\(3, 5\)"),
        (lambda: subspace_overlap([draw()[0], draw()[0][:2]]), ShapeError, r"one shape.*\(2, 13"),
        (lambda: cosine([draw()[0].long()]), DTypeError, "floating point, got torch.int64"),
        (lambda: cosine([draw()[0], draw()[0].double()]), DTypeError, r"weights\[1\] must be"),
        (lambda: product_cosine(draw(), draw()[:1]), ShapeError, "must be the same.*1 x"),
        (lambda: product_cosine(draw(), [w.mT for w in draw()]), ShapeError, "d_head must be"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call()
