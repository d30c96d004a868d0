"""Calls and models of the worker of heavy work, without a process."""

import pickle
from functools import partial
from typing import Any

import pytest

from mha_viz.ui.jobs import calls, worker
from mha_viz.ui.jobs.calls import Call, Checkpoint
from tests.ui.jobs import calls_for_tests as ours


@pytest.fixture(autouse=True)
def functions_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "OURS", (*calls.OURS, "tests."))


def test_outcome_of_an_error_of_ours_is_its_class_and_its_sentence() -> None:
    def outcome(function: Any) -> tuple[str, Any]:
        return worker.outcome(pickle.dumps(Call(partial(function))), lambda: None, lambda: None)

    assert outcome(ours.refuses) == ("error", ("TextError", "The text is empty."))
    kind, trace = outcome(ours.fails)
    assert kind == "fault" and "ZeroDivisionError: a mistake of ours" in trace


def test_model_of_keeps_one_checkpoint_with_and_without_random_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_models", {})
    loaded: list[Checkpoint] = []

    def load(checkpoint: Checkpoint) -> object:
        loaded.append(checkpoint)
        assert all(other.name == checkpoint.name for other in worker._models)
        return object()

    monkeypatch.setattr(worker, "_loaded", load)
    plain = Checkpoint("a", "cpu", "float32", 3)
    random, other = plain._replace(random=True), plain._replace(name="b")
    models = [worker.model_of(checkpoint) for checkpoint in (plain, random)]
    assert worker.model_of(plain) is models[0] and loaded == [plain, random]
    worker.model_of(other)
    assert list(worker._models) == [other]
