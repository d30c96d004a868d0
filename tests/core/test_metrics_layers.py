"""Measures of all heads of a layer, by the stack's SVD, sums written out and bounds."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mha_viz.core.metrics import layers
from mha_viz.core.metrics.outputs import variance
from mha_viz.core.metrics.table import METRICS
from mha_viz.errors import DTypeError, MhaVizError, ShapeError
from tests.core.outputs_by_definition import (
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


def test_a_layer_that_writes_nothing_has_no_ratio() -> None:
    z = random_z()
    z[1] = 0.0
    together, apart, ratio = layers.coverage(z, weights())
    assert together[1] == apart[1] == 0 and ratio[1].isnan() and ratio[0].isfinite()


# -- capacity ----------------------------------------------------------------------------------


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
