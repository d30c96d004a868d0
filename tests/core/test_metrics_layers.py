"""Measures of all heads of a layer, by the stack's SVD, sums written out and bounds."""

import math

import pytest
import torch

from mha_viz.core.metrics import layers
from mha_viz.core.metrics.outputs import variance
from tests.core.outputs_by_definition import (
    HEADS,
    LAYERS,
    materialised,
    random_z,
    rank,
    weights,
)
from tests.core.patterns import random_pattern
from tests.making.comparing import close


def test_pattern_coverage_agrees_with_the_svd_of_all_rows() -> None:
    pattern = random_pattern(11, 7)
    found, stacked = layers.pattern_coverage(pattern), pattern.double().numpy()
    close(found.together, [rank(layer.reshape(-1, 7)) for layer in stacked])
    close(found.apart, [sum(map(rank, layer)) for layer in stacked])
    close(layers.pattern_coverage(pattern[:, :1].expand(-1, HEADS, -1, -1)).ratio, 1 / HEADS)


def test_a_layer_that_writes_nothing_has_no_ratio() -> None:
    z = random_z()
    z[1] = 0.0
    together, apart, ratio = layers.coverage(z, weights())
    assert together[1] == apart[1] == 0 and ratio[1].isnan() and ratio[0].isfinite()


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
