"""Measures of all heads of a layer, by the stack's SVD, sums written out and bounds."""

import math
from collections.abc import Callable
from itertools import product

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mha_viz.core.metrics import layers
from mha_viz.core.metrics.outputs import effective_rank, variance
from mha_viz.core.metrics.spread import mutual_information
from mha_viz.core.metrics.table import METRICS
from mha_viz.errors import DTypeError, MhaVizError, ShapeError
from tests.core.outputs_by_definition import (
    D_HEAD,
    D_MODEL,
    HEADS,
    LAYERS,
    N,
    faint_directions,
    materialised,
    random_z,
    rank,
    weights,
)
from tests.making.comparing import close

ROWS = [row for row in METRICS.values() if row.function.__module__ == layers.__name__]


def random_pattern(query: int = N, key: int = 7, seed: int = 13, heads: int = HEADS) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    return (torch.randn(LAYERS, heads, query, key, generator=dice) * 2).softmax(-1)


# -- coverage ----------------------------------------------------------------------------------


def test_pattern_coverage_agrees_with_the_svd_of_all_rows() -> None:
    pattern = random_pattern(query=11)
    found, stacked = layers.pattern_coverage(pattern), pattern.double().numpy()
    close(found.together, [rank(layer.reshape(-1, 7)) for layer in stacked])
    close(found.apart, [sum(map(rank, layer)) for layer in stacked])
    close(layers.pattern_coverage(pattern[:, :1].expand(-1, HEADS, -1, -1)).ratio, 1 / HEADS)


@pytest.mark.parametrize(
    ("query", "d_head", "d_model"), [(11, 5, 17), (2, 7, 19), (13, 7, 5), (1, 3, 2)]
)
def test_coverage_agrees_with_the_svd_of_the_stack(query: int, d_head: int, d_model: int) -> None:
    z, W_O = random_z(query, d_head), weights(d_head, d_model)
    heads = materialised(z, W_O).numpy()
    together, apart, ratio = layers.coverage(z, W_O)
    close(together, [rank(layer.reshape(-1, d_model)) for layer in heads])
    close(apart, [sum(rank(head) for head in layer) for layer in heads])
    close(ratio, together / apart)


@pytest.mark.parametrize("faint", [1e-5, 1e-4])
def test_the_rank_of_a_stack_needs_the_digits_of_float64(faint: float) -> None:
    z, W_O = faint_directions(faint, 64)
    want = rank(materialised(z, W_O)[0, 0].numpy())
    close(layers.coverage(z, W_O).together, want)


def test_heads_that_write_alike_and_heads_that_share_nothing() -> None:
    z = random_z()[:, :1].expand(-1, HEADS, -1, -1)
    same = tuple(weight[:1].expand(HEADS, -1, -1) for weight in weights())
    close(layers.coverage(z, same).ratio, 1 / HEADS)
    basis = torch.linalg.qr(torch.randn(D_MODEL, HEADS * D_HEAD)).Q.T
    apart = (basis.reshape(HEADS, D_HEAD, D_MODEL),) * LAYERS
    close(layers.coverage(z, apart).ratio, 1.0)
    strong = z * torch.tensor([1.0, 5.0, 25.0])[:, None, None]  # as many directions, not as even
    assert (layers.coverage(strong, apart).ratio < 0.9).all()


def test_a_layer_that_writes_nothing_has_no_ratio() -> None:
    z = random_z()
    z[1] = 0.0
    together, apart, ratio = layers.coverage(z, weights())
    assert together[1] == apart[1] == 0 and ratio[1].isnan() and ratio[0].isfinite()


def test_a_stack_takes_no_more_memory_than_its_layer_asks_for() -> None:
    z, W_O = torch.randn(16, 3, 40, 8), [torch.randn(3, 8, 24) for _ in range(16)]

    class Sizes(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for made in out if isinstance(out, tuple | list) else [out]:
                if isinstance(made, Tensor) and made.dtype == torch.float64:
                    self.largest = max(self.largest, made.numel())
            return out

    with Sizes() as sizes:
        layers.coverage(z, W_O)
    roots, layer = 16 * 3 * 8 * 8, 3 * 40 * 8  # all W_O W_O^T are small, beside z of long texts
    assert layer <= sizes.largest <= max(roots, layer)


# -- capacity ----------------------------------------------------------------------------------


def joint_information(joint: np.ndarray) -> float:
    """Between a uniformly drawn row and a column, from the rows' distributions."""
    rows = joint.reshape(len(joint), -1)
    return float(scipy.stats.entropy(rows.mean(0)) - scipy.stats.entropy(rows, axis=-1).mean())


def test_capacity_against_entropies_by_scipy() -> None:
    pattern = random_pattern()
    total, best, pooled, bound = layers.capacity(pattern)
    for layer, heads in enumerate(pattern.double().numpy()):
        each = [joint_information(head) for head in heads]
        close(total[layer], sum(each))
        close(best[layer], max(each))
        close(pooled[layer], joint_information(heads.mean(0)))
        close(bound[layer], min(sum(each), math.log(N)))


def test_the_bound_is_the_number_of_queries_where_heads_tell_more() -> None:
    pattern = torch.eye(5).expand(LAYERS, HEADS, 5, 5)
    total, best, pooled, bound = layers.capacity(pattern)
    close(total, HEADS * math.log(5))
    for capacity in (best, pooled, bound):
        close(capacity, math.log(5))
    tall = random_pattern(2, 13, heads=7) ** 9
    tall = tall / tall.sum(-1, keepdim=True)
    assert (layers.capacity(tall).total > math.log(2)).all()
    close(layers.capacity(tall).bound, math.log(2))
    # ln 2 rounded to float32 would be off by 2e-9.
    close(layers.capacity(tall.double()).bound, math.log(2), atol=1e-12, rtol=0)


@hypothesis.given(
    query=st.sampled_from([1, 2, 5, 11]),
    key=st.sampled_from([1, 2, 3]),
    sharpness=st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    seed=st.integers(0, 99),
)
def test_the_joint_information_lies_where_it_is_said_to(
    query: int, key: int, sharpness: float, seed: int
) -> None:
    pattern = random_pattern(query, key, seed).double() ** sharpness
    pattern = pattern / pattern.sum(-1, keepdim=True)
    total, best, pooled, bound = layers.capacity(pattern)
    for layer, heads in enumerate(pattern):
        combinations = [
            math.prod(heads[h, :, k] for h, k in enumerate(keys))
            for keys in product(range(key), repeat=HEADS)
        ]
        joint = joint_information(torch.stack(combinations, dim=-1).numpy())
        assert best[layer] <= joint + 1e-9 and joint <= bound[layer] + 1e-9
        mean = mutual_information(pattern)[layer].mean()
        assert pooled[layer] <= mean + 1e-9 and mean <= best[layer] + 1e-9
        assert bound[layer] <= total[layer]


# -- the statements ----------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "d_head", "d_model"), [(11, 5, 17), (1, 7, 3)])
def test_statements_agree_with_the_materialised_outputs(
    query: int, d_head: int, d_model: int
) -> None:
    z, W_O = random_z(query, d_head), weights(d_head, d_model)
    heads = materialised(z, W_O)
    of_sum, sum_of = layers.variance_statement(z, W_O)
    close(of_sum, heads.sum(1).var(1, correction=0).sum(-1))
    close(sum_of, heads.var(2, correction=0).sum((-1, 1)))
    close(sum_of, variance(z, W_O).sum(-1))
    mean_square, width = layers.norm_statement(z, W_O)
    close(mean_square, heads.sum(1).norm(dim=-1).square().mean(-1))
    close(width, float(d_model))
    close(layers.variance_statement(z, W_O).ratio, of_sum / sum_of)
    close(layers.norm_statement(z, W_O).ratio, mean_square / d_model)


def test_the_variance_statement_may_hold_and_may_fail() -> None:
    z = random_z()[:, :1].repeat(1, HEADS, 1, 1)
    same = tuple(weight[:1].repeat(HEADS, 1, 1) for weight in weights())
    close(
        layers.variance_statement(z, same).ratio, float(HEADS)
    )  # heads alike: H^2 Var beside H Var
    z[:, 1] *= -1.0
    z[:, 2] = 0.0
    close(layers.variance_statement(z, same).ratio, 0.0)  # heads that cancel


# -- all of them -------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=[row.key for row in ROWS])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_precision_is_added_up_in_float32(row, dtype: torch.dtype) -> None:
    z, W_O = random_z().to(dtype), tuple(weight.to(dtype) for weight in weights())
    given = (z, W_O) if row.needs else (random_pattern(101).to(dtype),)
    wide = (z.double(), tuple(w.double() for w in W_O)) if row.needs else (given[0].double(),)
    got = row.function(*given)
    assert got.shape == (LAYERS,)
    assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    close(got.double(), row.function(*wide))


@pytest.mark.parametrize("row", ROWS, ids=[row.key for row in ROWS])
def test_layers_are_kept_apart(row) -> None:
    given = [random_z(), weights()] if row.needs else [random_pattern()]
    backwards = [given[0].flip(0), *(weight[::-1] for weight in given[1:])]
    close(row.function(*backwards), row.function(*given).flip(0))
    assert row.function(*given)[0] != row.function(*given)[1]


def test_the_rows_give_the_number_they_name() -> None:
    z, W_O, pattern = random_z(), weights(), random_pattern()
    capacity, together = layers.capacity(pattern), layers.coverage(z, W_O)
    want = {
        "head_rank": together.apart / HEADS,
        "coverage_ratio": together.together / together.apart,
        "capacity_total": capacity[0],
        "capacity_best": capacity[1],
        "capacity_pooled": capacity[2],
        "capacity_bound": capacity[3],
        "variance_ratio": layers.variance_statement(z, W_O).ratio,
        "norm_ratio": layers.norm_statement(z, W_O).ratio,
    }
    assert list(want) == [row.key for row in ROWS]
    for row in ROWS:
        close(row.function(*((z, W_O) if row.needs else (pattern,))), want[row.key])
        assert row.of == "layer" and row.needs <= {"outputs"}
        assert row.direction.startswith("higher means") and row.meaning.endswith(".")


def test_ranks_of_a_layer_are_those_of_its_heads() -> None:
    each = effective_rank(random_z(), weights())
    assert each.shape == (LAYERS, HEADS)
    close(layers.coverage(random_z(), weights()).apart, each.sum(-1))
    close(layers.head_rank(random_z(), weights()), each.sum(-1) / HEADS)


WRONG: dict[str, tuple[type[MhaVizError], str, Callable[[], object]]] = {
    "axes": (ShapeError, "layer, head", lambda: layers.coverage(random_z()[0], weights())),
    "layers": (ShapeError, "2 layers", lambda: layers.norm_statement(random_z(), weights()[1:])),
    "width": (ShapeError, "layer 0", lambda: layers.variance_statement(random_z(), weights(7))),
    "kind": (DTypeError, "int64", lambda: layers.coverage(random_z().long(), weights())),
    "pattern": (ShapeError, "none empty", lambda: layers.capacity(random_pattern()[..., :0])),
}


@pytest.mark.parametrize(("error", "words", "call"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(
    error: type[MhaVizError], words: str, call: Callable[[], object]
) -> None:
    with pytest.raises(error, match=words):
        call()
