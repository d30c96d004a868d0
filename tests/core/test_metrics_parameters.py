"""Heads compared by their weights, against materialised products, scipy and plain loops."""

import itertools
import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mha_viz.core.metrics import METRICS, parameters
from mha_viz.core.metrics.parameters import (
    cosine,
    diversity,
    product_cosine,
    product_overlap,
    subspace_overlap,
)
from mha_viz.errors import ArgumentError, DTypeError, ShapeError
from tests.making.comparing import close

ROWS = [row for row in METRICS.values() if row.function.__module__ == parameters.__name__]
LAYERS, HEADS, D_MODEL, D_HEAD, D_OTHER = 2, 3, 13, 5, 17
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


def rotation(n: int, seed: int = 3) -> Tensor:
    return torch.linalg.qr(torch.randn(n, n, generator=torch.Generator().manual_seed(seed)))[0]


# -- against other ways to the same number -------------------------------------------------------


def test_cosine_by_a_plain_loop():
    weights = draw()
    close(cosine(weights), table(heads_of(weights), angle_cosine))


@pytest.mark.parametrize("d_other", [D_MODEL, D_OTHER, 2])
def test_product_cosine_by_materialised_products(d_other):
    left, right = draw(), draw(11, d_other)
    products = [a @ b.T for a, b in zip(heads_of(left), heads_of(right), strict=True)]
    assert products[0].shape == (D_MODEL, d_other)
    close(product_cosine(left, right), table(products, angle_cosine))


@pytest.mark.parametrize("narrow", [False, True])
def test_product_overlap_by_the_svd_of_materialised_products(narrow):
    left, right = draw(), draw(11)
    if narrow:  # the product then spans less than its left factor
        right = [layer @ torch.diag((torch.arange(D_HEAD) > 0).float()) for layer in right]
    products = [a.double() @ b.double().mT for a, b in zip(left, right, strict=True)]
    rank = D_HEAD - narrow
    U, _, V = torch.linalg.svd(torch.cat(products))
    want = torch.ones(len(U), len(U), dtype=torch.float64)
    for bases in (U[..., :rank], V.mT[..., :rank]):
        inside = bases.mT[:, None] @ bases[None]
        want *= inside.square().sum((-2, -1)) / rank
    close(product_overlap(left, right), want)


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


def test_overlap_by_scipys_angles():
    weights = draw()
    want = table(
        heads_of(weights), lambda a, b: (np.cos(scipy.linalg.subspace_angles(a, b)) ** 2).mean()
    )
    close(subspace_overlap(weights), want)


def test_diversity_by_a_plain_loop():
    layer = draw()[0]
    layer[1] -= layer[0]  # some angles are obtuse
    heads = heads_of([layer])
    pairs = list(itertools.permutations(heads, 2))
    assert min(angle_cosine(a, b) for a, b in pairs) < -0.1
    close(diversity(layer), np.mean([1 - abs(angle_cosine(a, b)) for a, b in pairs]))


# -- what must hold ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRWISE)
def test_order_is_layer_by_layer_and_the_table_is_symmetric(name):
    weights = draw()
    got = PAIRWISE[name](weights)
    assert got.shape == (LAYERS * HEADS,) * 2 and torch.equal(got, got.mT)
    close(got.diagonal(), torch.ones(LAYERS * HEADS))
    order = [5, 2, 0, 4, 1, 3]
    mixed = torch.cat(weights)[order].unflatten(0, (LAYERS, HEADS))
    close(PAIRWISE[name](list(mixed)), got[order][:, order])
    close(PAIRWISE[name]([torch.cat(weights)]), got)  # one layer of six heads


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("size", [1e-30, 1e-3, 1e25])
def test_size_does_not_matter(name, size):
    weights = draw()
    sizes = torch.tensor([size, 1.0, 7.0])[:, None, None]
    close(PAIRWISE[name]([w * sizes for w in weights]), PAIRWISE[name](weights))


@pytest.mark.parametrize("name", PAIRWISE)
def test_halves_are_taken_and_doubles_kept(name):
    weights = draw()
    for dtype in (torch.float16, torch.bfloat16):
        rounded = [w.to(dtype) for w in weights]
        got = PAIRWISE[name](rounded)
        assert got.dtype == torch.float32
        close(got, PAIRWISE[name]([w.float() for w in rounded]))
    assert PAIRWISE[name]([w.double() for w in weights]).dtype == torch.float64


def test_identical_opposite_and_orthogonal_heads():
    head = draw()[0][:1]
    same = torch.cat([head, 3 * head, -head])
    close(cosine([same]), [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    close(subspace_overlap([same]), torch.ones(3, 3))
    close(product_cosine([same], [same]), torch.ones(3, 3))  # a sign on both sides is none
    close(diversity(same), 0.0)
    apart = torch.eye(13)[:12].mT.reshape(13, 3, 4).transpose(0, 1)
    for got in (cosine([apart]), subspace_overlap([apart]), product_cosine([apart], [apart])):
        close(got, torch.eye(3))
    close(diversity(apart), 1.0)


def test_only_what_a_head_does_counts_for_products_and_subspaces():
    """Another basis inside of a head changes its matrices, and nothing that it does."""
    left, right, R = draw(), draw(11), rotation(D_HEAD)
    turned = [w @ R for w in left]
    assert (cosine(turned + left)[:6, 6:].diagonal() < 0.9).all()
    close(product_cosine([left[0], left[0] @ R], [right[0], right[0] @ R]).diagonal(3), [1, 1, 1])
    close(subspace_overlap([left[0], turned[0]]).diagonal(3), [1, 1, 1])


def test_random_subspaces_overlap_by_chance():
    weights = [torch.randn(12, 257, 31) for _ in range(2)]
    off = ~torch.eye(24, dtype=torch.bool)
    assert subspace_overlap(weights)[off].mean().item() == pytest.approx(31 / 257, rel=0.02)


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


def test_no_input_is_changed():
    weights = draw()
    before = [w.clone() for w in weights]
    for measure in PAIRWISE.values():
        measure(weights)
    diversity(weights[0])
    assert all(torch.equal(a, b) for a, b in zip(weights, before, strict=True))


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


def test_one_head_has_no_diversity_and_zeros_no_angles():
    assert diversity(draw()[0][:1]).isnan()


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(
    d_model=st.sampled_from([1, 2, 7, 23]),
    d_head=st.sampled_from([1, 2, 11]),
    low_rank=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_number_stays_in_its_range(d_model, d_head, low_rank, seed):
    g = torch.Generator().manual_seed(seed)
    shape = (LAYERS, HEADS, d_model, d_head)
    weights = torch.randn(shape, generator=g)
    if low_rank:
        weights = weights.round() @ torch.ones(d_head, d_head)
    for row in ROWS:
        layers = list(weights)
        arguments = {
            "product_cosine": (layers, layers),
            "product_overlap": (layers, layers),
            "diversity": (weights[0],),
        }
        got = row.function(*arguments.get(row.key, (layers,)))
        good = got[~got.isnan()]
        assert ((row.limits[0] <= good) & (good <= row.limits[1])).all(), row.key
        assert low_rank or not got.isnan().any(), row.key


# -- what is wrong is said -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cosine([]), ArgumentError, "weights must hold at least one layer"),
        (lambda: cosine([torch.ones(3, 5)]), ShapeError, r"\(head, d_model, d_head\).*\(3, 5\)"),
        (lambda: cosine([torch.ones(2, 0, 5)]), ShapeError, "none empty"),
        (lambda: subspace_overlap([draw()[0], draw()[0][:2]]), ShapeError, r"one shape.*\(2, 13"),
        (lambda: cosine([draw()[0].long()]), DTypeError, "floating point, got torch.int64"),
        (lambda: cosine([draw()[0], draw()[0].double()]), DTypeError, r"weights\[1\] must be"),
        (lambda: product_cosine(draw(), draw()[:1]), ShapeError, "must be the same.*1 x"),
        (lambda: product_cosine(draw(), [w.mT for w in draw()]), ShapeError, "d_head must be"),
        (lambda: product_cosine(draw(), []), ArgumentError, "right must hold"),
        (lambda: diversity(torch.ones(3)), ShapeError, "head, d_model, d_head"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_every_row_is_filled_in():
    for row in ROWS:
        assert row.key == row.function.__name__
        assert row.title and row.formula and row.source and row.meaning.endswith(".")
        assert row.direction.startswith("higher means")
        assert row.of == ("layer" if row.key == "diversity" else "parameters")


def test_factored_matrix_are_never_laid_out():
    """Of twelve layers of GPT-2's size they would be 340 MB."""
    weights = [torch.randn(12, 768, 64) for _ in range(12)]
    with Largest() as made:
        got = product_cosine(weights, weights)
    assert 0 < made.size <= 144 * 768 * 64  # that of what came in
    assert got.shape == (144, 144) and not got.isnan().any()


class Largest(TorchDispatchMode):
    """Sees every tensor that is made in its block, and keeps the size of the largest."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **kwargs or {})
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.numel())
        return made
