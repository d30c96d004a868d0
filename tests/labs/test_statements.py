"""Lab 10: heads that are removed on texts that their order has not seen."""

from unittest.mock import MagicMock

import mha_viz as mv
from mha_viz.core.stored_runs import read
from mha_viz.interventions.pruning import PruningCurve
from mha_viz.learn.labs.statements import numbers


def test_heads_are_removed_on_texts_that_their_order_has_not_seen(monkeypatch):
    calls = []

    def record(model, texts, order):
        calls.append((texts, order))
        return MagicMock(spec=PruningCurve, removed=[order])

    monkeypatch.setattr(numbers, "pruning_curve", record)
    numbers.removal(mv.load("tiny-gpt2"))
    (known, first), (unseen, order) = calls
    assert not set(known) & set(unseen) and order == first == "ablation"
    for stored in read(numbers.REMOVED).values():
        assert (stored.same.n_texts, stored.other.n_texts) == (len(known), len(unseen))
