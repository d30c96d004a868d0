"""Models of the worker of heavy work, without a process."""

import pytest

from mha_viz.ui.jobs import worker
from mha_viz.ui.jobs.calls import Checkpoint


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
