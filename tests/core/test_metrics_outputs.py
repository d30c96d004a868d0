"""Metrics of what heads and layers write, against materialised outputs, SVD and bounds."""

import math

import pytest
import torch
from torch import Tensor

from mha_viz.core.metrics import layers, outputs
from mha_viz.core.metrics.table import METRICS
from mha_viz.errors import DTypeError, MhaVizError, ShapeError
from tests.core.outputs_by_definition import (
    HEADS,
    LAYERS,
    Weights,
    faint_directions,
    materialised,
    random_z,
    rank,
    weights,
)
from tests.core.patterns import random_pattern
from tests.making.comparing import close

ROWS = [row for row in METRICS.values() if row.function.__module__ == outputs.__name__]
FUNCTIONS = [*(row.function for row in ROWS), outputs.effective_rank]


@pytest.mark.parametrize(("query", "d_head", "d_model"), [(11, 5, 17), (3, 7, 13), (13, 7, 5)])
def test_effective_rank_is_that_of_the_materialised_outputs(
    query: int, d_head: int, d_model: int
) -> None:
    z, W_O = random_z(query, d_head), weights(d_head, d_model)
    want = [[rank(head.numpy()) for head in layer] for layer in materialised(z, W_O)]
    close(outputs.effective_rank(z, W_O), want)


def test_a_variance_far_from_zero_does_not_cancel() -> None:
    z = random_z() * 1e-3 + 100.0
    want = materialised(z, weights()).var(-2, correction=0).sum(-1)
    close(outputs.variance(z, weights()), want, rtol=1e-2)
    assert (want < 1e-3).all()  # beside squared norms of 10,000 and more
    z = random_z()
    z[1, 2] = 9.0 + 1e-6 * torch.randn(z.shape[-2:])
    z[0, 1] = 9.0 + 1e-4 * torch.randn(z.shape[-2:])
    varied = outputs.variance(z, weights())
    assert varied[1, 2] == 0 and varied[0, 1] > 0
    want = materialised(z.double(), weights()).var(-2, correction=0).sum(-1)
    assert float(varied[0, 1]) == pytest.approx(float(want[0, 1]), rel=0.01)


def test_a_head_or_a_layer_that_writes_nothing() -> None:
    z = random_z()
    z[1, 2] = 0.0
    for function in FUNCTIONS:
        assert function(z, weights())[1, 2] == 0
        assert (function(z, weights())[1, :2] > 0).all()
    z[1] = 0.0
    share = outputs.output_share(z, weights())
    assert share[1].isnan().all()  # shares of nothing
    close(share[0].sum(), 1.0)
    z = random_z()
    z[1] = 0.0
    together, apart, ratio = layers.coverage(z, weights())
    assert together[1] == apart[1] == 0 and ratio[1].isnan() and ratio[0].isfinite()


@pytest.mark.parametrize("faint", [1e-5, 1e-4])
def test_a_rank_needs_the_digits_of_float64(faint: float) -> None:
    # a Gram matrix holds squares: in float32 it loses directions below 3e-4 of the strongest
    z, W_O = faint_directions(faint, 64)
    want = rank(materialised(z, W_O)[0, 0].numpy())
    assert want > 1 + 60 * faint
    close(outputs.effective_rank(z, W_O), want)


WRONG: dict[str, tuple[type[MhaVizError], str, Tensor, Weights]] = {
    "axes": (ShapeError, r"layer, head, query, d_head.*\(3, 11, 5\)", random_z()[0], weights()),
    "empty": (ShapeError, "none empty", random_z()[..., :0, :], weights()),
    "integers": (DTypeError, "z must be floating point.*int64", random_z().long(), weights()),
    "layers": (ShapeError, "2 layers.*1", random_z(), weights()[:1]),
    "heads": (
        ShapeError,
        r"layer 1.*\(3, 5, d_model\).*\(2, 5, 17\)",
        random_z(),
        (weights()[0], weights()[1][:2]),
    ),
    "width": (ShapeError, r"layer 0.*\(3, 7, 17\)", random_z(), weights(7)),
    "kind": (DTypeError, "layer 0.*int64", random_z(), tuple(w.long() for w in weights())),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("error", "words", "z", "W_O"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(
    function, error: type[MhaVizError], words: str, z: Tensor, W_O: Weights
) -> None:
    with pytest.raises(error, match=words):
        function(z, W_O)


def test_pattern_coverage_agrees_with_the_svd_of_all_rows() -> None:
    pattern = random_pattern(11, 7)
    found, stacked = layers.pattern_coverage(pattern), pattern.double().numpy()
    close(found.together, [rank(layer.reshape(-1, 7)) for layer in stacked])
    close(found.apart, [sum(map(rank, layer)) for layer in stacked])
    close(layers.pattern_coverage(pattern[:, :1].expand(-1, HEADS, -1, -1)).ratio, 1 / HEADS)


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
