"""The table of all per-head numbers: what applies, what it holds, and the range of every number."""

import numpy as np
import pytest
import torch
from torch import Tensor

import mha_viz as mv
from mha_viz.core import metrics
from mha_viz.core.metrics import TokenFacts, head_table
from mha_viz.errors import ArgumentError, ShapeError
from tests.core.patterns import HEADS, KEYS, LAYERS, N, random_pattern
from tests.core.records import make
from tests.making.comparing import close

PATTERN_METRICS = [
    key
    for key, metric in metrics.METRICS.items()
    if metric.of == "head" and not {"outputs", "sink"} & metric.needs
]


def applied(pattern: Tensor, **extra: object) -> dict[str, Tensor]:
    n = pattern.shape[-1]
    facts = TokenFacts(torch.arange(n) % 3, torch.arange(n) < 1, period=3)
    return metrics.head_table(pattern, facts, **extra)


@pytest.mark.parametrize("rows", [[2], [0, 6], list(range(N))])
def test_rows_of_nothing_leave_every_number_defined_unless_all_are(rows: list[int]) -> None:
    pattern = random_pattern()
    pattern[..., rows, :] = 0.0
    table = applied(pattern)
    assert list(table) == PATTERN_METRICS
    if len(rows) == N:  # no head attends to anything: nothing can be said of where
        assert all(values.isnan().all() for values in table.values())
    else:
        assert all(values.isfinite().all() for values in table.values())


def test_only_the_head_that_attends_to_nothing_is_not_defined() -> None:
    pattern = random_pattern()
    table = applied(pattern)
    pattern[1, 2] = 0.0
    z, W_O = torch.randn(LAYERS, HEADS, N, 5), tuple(torch.randn(LAYERS, HEADS, 5, 11))
    without = applied(pattern, z=z, W_O=W_O)
    for key, values in without.items():
        if key in table:
            assert values.isnan().nonzero().tolist() == [[1, 2]]
            close(values.nan_to_num(), torch.where(values.isnan(), 0.0, table[key]))
        else:
            assert values.isfinite().all()


@pytest.mark.parametrize(
    ("shape", "facts", "met"),
    [
        ((), TokenFacts(), {"self", "neighbours"}),
        ((), TokenFacts(torch.arange(N)), {"self", "neighbours"}),  # no token occurs twice
        ((1,), TokenFacts(), {"self"}),
        ((5, KEYS), applied, {"special"}),
    ],
    ids=("alone", "with ids", "one token", "cross-attention"),
)
def test_the_table_leaves_out_what_does_not_apply(shape, facts, met) -> None:
    pattern = random_pattern(*shape)
    table = applied(pattern) if facts is applied else metrics.head_table(pattern, facts)
    wanted = [key for key in PATTERN_METRICS if metrics.METRICS[key].needs <= met | {"allowed"}]
    assert list(table) == wanted
    assert {"entropy", "first_token"} <= table.keys() and "induction" not in table
    assert ("distance" in table, "next_token" in table) == ("self" in met, "neighbours" in met)


def test_a_key_of_before_is_refused_with_the_one_of_now() -> None:
    for old, new in metrics.RENAMED.items():
        assert new in metrics.METRICS and old not in metrics.METRICS
        with pytest.raises(ArgumentError, match=f"'{old}' is called '{new}'"):
            metrics.METRICS[old]
    with pytest.raises(ArgumentError, match="no metric 'bogus'; there are: entropy, "):
        metrics.METRICS["bogus"]


def test_a_learned_sink_is_measured_where_there_is_one_and_left_out_elsewhere() -> None:
    pattern = random_pattern(causal=True) * 0.25
    sink = 1 - pattern.sum(-1)
    table = metrics.head_table(pattern, sink=sink)
    close(table["sink"], 0.75)
    assert "sink" not in metrics.head_table(pattern)
    nothing = metrics.head_table(0 * pattern, sink=1 + 0 * sink)
    assert nothing["entropy"].isnan().all() and (nothing["sink"] == 1).all()
    with pytest.raises(ShapeError, match="sink must be"):
        metrics.METRICS["sink"].function(pattern, sink=sink[:, :, 1:])


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
    mv.register_metric(lambda pattern: pattern.sum(-1), key="mine")
    with pytest.raises(ShapeError, match=r"mine must return .* = \(2, 3\), got shape \(2, 3, 7\)"):
        head_table(random_pattern())
