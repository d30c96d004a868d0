"""A metric of one's own: measured beside the others, and refused where it is none."""

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.metrics import head_table
from mha_viz.errors import ArgumentError, ShapeError
from tests.core.patterns import random_pattern
from tests.core.records import make


@pytest.fixture(autouse=True)
def _as_before():
    before = dict(mv.METRICS)
    yield
    mv.METRICS.clear()
    mv.METRICS.update(before)


def test_it_stands_beside_the_others_with_its_baselines():
    @mv.register_metric
    def strongest(pattern):
        """The largest weight.

        Not shown.
        """
        return pattern.amax((-2, -1))

    record = make(value=None)
    table = mv.head_report(record)
    assert np.allclose(table["strongest"], record.pattern.amax((-2, -1)).flatten())
    assert np.allclose(table["strongest_uniform"], 1 / 5)
    metric = mv.METRICS["strongest"]
    assert (metric.title, metric.meaning) == ("Strongest", "The largest weight.")
    assert strongest(random_pattern()).shape == (2, 3)  # the function itself is untouched


def test_it_may_return_an_array_and_be_named():
    mv.register_metric(
        lambda pattern: np.asarray(pattern).mean((-2, -1)), key="mine", title="My own", unit="share"
    )
    found = head_table(random_pattern())["mine"]
    assert isinstance(found, torch.Tensor) and torch.allclose(found, torch.tensor(1 / 7))


def test_it_is_called_with_what_it_needs_and_only_where_that_is():
    def to_special(pattern, *, is_special):
        return pattern[..., is_special].sum((-2, -1))

    mv.register_metric(to_special, needs=["special"])
    mv.register_metric(lambda z, W_O: z.norm(dim=(-2, -1)), key="size_of_z", needs=["outputs"])
    assert not {"to_special", "size_of_z"} & head_table(random_pattern()).keys()
    assert {"to_special", "size_of_z"} <= set(mv.head_report(make(value=None)))


def test_ones_own_is_replaced_and_the_librarys_is_not():
    mv.register_metric(lambda pattern: pattern.sum((-2, -1)), key="mine")
    mv.register_metric(lambda pattern: pattern.sum((-2, -1)) * 0, key="mine")
    assert not head_table(random_pattern())["mine"].any()
    assert all(metric.source for key, metric in mv.METRICS.items() if key != "mine")
    with pytest.raises(ArgumentError, match="'entropy' is a metric of the library"):
        mv.register_metric(lambda pattern: pattern.sum((-2, -1)), key="entropy")


def test_a_number_for_each_head_is_asked_for():
    mv.register_metric(lambda pattern: pattern.sum(-1), key="mine")
    with pytest.raises(ShapeError, match=r"mine must return .* = \(2, 3\), got shape \(2, 3, 7\)"):
        head_table(random_pattern())
