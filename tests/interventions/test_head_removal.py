"""All that the section Importance measures by taking heads away, in one call."""

import pytest

import mha_viz as mv
from mha_viz.core.names import ORDERS
from mha_viz.interventions.pruning import DRAWS, IMPORTANCE, pruning_curve, remove_heads
from mha_viz.interventions.robustness import robustness
from tests.making.comparing import close

TEXTS = ["The cat sat on the mat."]


@pytest.fixture(scope="module")
def model():
    return mv.load("tiny-gpt2")


def test_it_is_what_each_part_finds_by_itself(model):
    told = []
    found = remove_heads(
        model,
        TEXTS,
        {},
        steps=2,
        n_seeds=1,
        n_draws=4,
        on_progress=lambda *news: told.append(news),
    )
    assert list(found.curves) == list(ORDERS)
    for order, curve in found.curves.items():
        direct = pruning_curve(model, TEXTS, order, steps=2, n_seeds=1)
        close(curve.values, direct.values)
    draws = robustness(model, TEXTS, 4)
    close(found.draws.change, draws.change)
    in_order = [IMPORTANCE, *ORDERS, DRAWS]
    assert list(dict.fromkeys(part for part, _ in told)) == in_order
    for (
        part,
        share,
    ) in told:  # some parts count twice: first what puts heads in order, then the loss
        begin = in_order.index(part) / len(in_order)
        assert begin <= share <= begin + 1 / len(in_order) + 1e-9
    assert told[-1] == (DRAWS, 1.0)
