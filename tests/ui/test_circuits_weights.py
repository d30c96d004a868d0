"""The work that the Circuits page expects of the search for pairs of tokens."""

from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.flop_counter import FlopCounterMode

import mha_viz as mv
from mha_viz.ui.circuits import weights


def test_vocabulary_expects_the_seconds_that_its_multiplications_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, expected = mv.load("tiny-gpt2"), list[float]()
    view = SimpleNamespace(checkpoint=("tiny-gpt2", "cpu", "float32"), chosen=(1, 2))
    monkeypatch.setattr(weights.state, "of", lambda _: view)
    monkeypatch.setattr(weights.targets, "model", lambda: model)
    monkeypatch.setattr(weights.heavy, "model_of", lambda _: model)
    monkeypatch.setattr(weights.heavy, "work", lambda work, _, seconds: expected.append(seconds))
    monkeypatch.setattr(weights.progress, "done", lambda *_: None)

    def on_request(kind: str, key: object, make: Any, *_: str) -> None:
        make()

    monkeypatch.setattr(weights.progress, "on_request", on_request)
    monkeypatch.setattr(weights, "AT_ONCE", 0.0)
    weights._vocabulary()
    with FlopCounterMode(display=False) as counter:
        mv.head_vocabulary(model, *view.chosen)
    n_operations = weights.RATE * expected[0]
    assert n_operations == pytest.approx(counter.get_total_flops(), rel=0.25)
