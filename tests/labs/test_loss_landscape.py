"""Lab 9, where training has led: the Hessian's ends and the plane, against direct computations."""

from functools import partial

import numpy as np
import pytest
import torch

from mha_viz.errors import ArgumentError
from mha_viz.learn import loss_landscape as lab
from mha_viz.learn.labs.how_heads_learn import numbers
from mha_viz.learn.networks import induction_transformer as learning
from mha_viz.learn.training import split_by_name, with_weights
from tests.making.comparing import close, near

LOSS = partial(learning.loss_at, 2)


@pytest.fixture(scope="module")
def weights():
    return list(learning.film(2, 40, 0.01, all_weights=True).weights.values())


def test_new_layers_have_weights_of_xavier():
    model = learning.TinyTransformer(2, torch.Generator().manual_seed(0))
    for weight in (w for layer in model.layers for w in layer.parameters()):
        assert float(weight.detach().std()) == pytest.approx(1 / 8, rel=0.05)  # 1 / √d_model
        assert float(weight.abs().max()) <= 3**0.5 / 8


def _symmetric(values, seed):
    random = torch.Generator().manual_seed(seed)
    turned = torch.linalg.qr(
        torch.randn(len(values), len(values), generator=random, dtype=torch.float64)
    ).Q
    return turned @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ turned.T


@pytest.mark.parametrize("seed", range(3))
def test_lanczos_finds_both_ends_of_a_matrix(seed):
    values = np.r_[9.0, np.linspace(-0.5, 0.5, 58), -2.0].tolist()
    matrix = _symmetric(values, seed)
    start = torch.randn(60, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    done = []
    (high, low), vectors, unsure = lab.lanczos(matrix.mv, start, 20, done.append)
    assert (high, low) == pytest.approx((9.0, -2.0), abs=1e-8) and done == list(range(1, 21))
    for value, vector, off in zip((high, low), vectors, unsure, strict=True):
        assert float(vector.norm()) == pytest.approx(1)
        found = float((matrix @ vector - value * vector).norm())
        assert found == pytest.approx(off, abs=1e-12) and off < 1e-4


def test_lanczos_says_how_unsure_it_is_and_stops_where_all_is_seen():
    matrix = _symmetric(np.linspace(-1, 1, 50).tolist(), 0)
    start = torch.ones(50, dtype=torch.float64)
    (high, low), _, unsure = lab.lanczos(matrix.mv, start, 4)
    known = torch.linalg.eigvalsh(matrix)
    for value, off in zip((high, low), unsure, strict=True):
        assert off > 1e-3 and float((known - value).abs().min()) <= off + 1e-12
    twice = torch.diag(torch.tensor([3.0, 3.0, -1.0, -1.0], dtype=torch.float64))
    done = []
    values, *_ = lab.lanczos(twice.mv, torch.ones(4, dtype=torch.float64), 4, done.append)
    assert values == pytest.approx((3.0, -1.0)) and len(done) == 2


def test_curvature_is_that_of_the_loss(weights):
    loss_of = LOSS
    found = lab.curvature(loss_of, weights[-1], n_products=25)
    # what products with the Hessian say, the loss itself says
    assert found.measured == pytest.approx((found.largest, found.smallest), rel=2e-3)
    assert max(found.unsure) < 0.05 * found.largest and found.largest > 0 > found.smallest
    model = with_weights(learning.TinyTransformer(2, torch.Generator()), weights[-1].double())
    texts = learning.repeat_tokens(32, learning.PERIODS, torch.Generator().manual_seed(2**33))
    loss = learning.loss_of(model, texts)[0]
    gradient = torch.autograd.grad(loss, list(model.parameters()))
    assert found.gradient == pytest.approx(float(sum(g.square().sum() for g in gradient)) ** 0.5)
    assert found.loss == pytest.approx(float(loss.detach()))


def _directions(end):
    model = learning.TinyTransformer(2, torch.Generator())
    return lab.random_directions(model, end, learning.EMBEDDINGS)


def _across(weights, kind):
    return None if kind == "path" else _directions(weights[-1].double())


@pytest.mark.parametrize("kind", numbers.PLANES)
def test_the_plane_goes_through_the_end_and_has_the_loss_there(weights, kind):
    done, loss_of = [], LOSS
    found = lab.plane(loss_of, weights, _across(weights, kind), done.append, side=5)
    assert found.loss.shape == (len(found.y), len(found.x)) and max(found.loss.shape) <= 5
    assert done == list(range(1, found.loss.numel() + 1)) and 0 <= found.share <= 1
    row, column = int(found.y.abs().argmin()), int(found.x.abs().argmin())
    assert float(found.y[row]) == 0 == float(found.x[column])
    assert float(found.loss[row, column]) == near(float(loss_of(weights[-1]).detach()))
    close(found.path[-1], torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["path", pytest.param("random", marks=pytest.mark.extended)])
def test_a_run_is_repeated_for_its_plane(weights, kind, monkeypatch):
    monkeypatch.setattr(lab.plane, "__defaults__", (None, None, 5))
    done = []
    found = numbers.plane_of_run((2, 40, 0.01, 0, "adam"), kind, done.append)
    expected = lab.plane(LOSS, weights, _across(weights, kind))
    assert done[-1] == 40 + expected.loss.numel() and done == sorted(done)
    close(found.path, expected.path)
    close(found.loss, expected.loss)


def test_the_path_lies_in_its_own_plane_and_hardly_in_a_random_one(weights):
    own = lab.plane(LOSS, weights, side=3)
    moved = torch.stack([w.double() - weights[-1].double() for w in weights])
    values = torch.linalg.svdvals(moved).square()
    assert own.share == near(float(values[:2].sum() / values.sum()))
    for places, path in ((own.x, own.path[:, 0]), (own.y, own.path[:, 1])):
        assert places.min() < path.min() and path.max() < places.max()
    random = lab.plane(LOSS, weights, _across(weights, "random"), side=3)
    assert random.share < 0.01 < own.share


def test_random_directions_are_as_long_as_the_weights_filter_by_filter(weights):
    end = weights[-1].double()
    model = learning.TinyTransformer(2, torch.Generator())
    one, two = (split_by_name(model, direction) for direction in _directions(end))
    for name, weight in split_by_name(model, end).items():
        axis = -1 if name in ("embed", "position") else -2
        for direction in (one, two):
            close(direction[name].norm(dim=axis), weight.norm(dim=axis))
    assert not torch.equal(one["embed"], two["embed"])


def test_what_makes_no_sense(weights):
    with pytest.raises(ArgumentError, match="3 weights"):
        lab.plane(LOSS, weights[:2])
    with pytest.raises(ArgumentError):
        lab.curvature(LOSS, weights[0], n_products=1)
