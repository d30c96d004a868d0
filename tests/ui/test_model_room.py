"""The size of a model on the page, and the room that other models leave for it."""

import pytest

from mha_viz.checkpoints import building
from mha_viz.errors import OutOfMemoryError
from mha_viz.ui.operating.settings import Settings
from mha_viz.ui.run import memory
from tests.making.checkpoints import D_HEAD, HEADS, LAYERS, N_CTX, copy


def test_size_line_counts_weights_in_the_chosen_precision_and_the_longest_text(
    folder, tmp_path, monkeypatch
):
    own = str(copy(folder, tmp_path / "own"))
    line = memory.size_line(own, "float32")
    token = 4 * 4 * LAYERS * HEADS * D_HEAD
    assert line.endswith(f"a text of {N_CTX} tokens takes {N_CTX * token / 1000:.3g} kB")
    weights = float(line.split()[0])
    half = memory.size_line(own, "bfloat16")
    assert float(half.split()[0]) == pytest.approx(weights / 2, rel=0.01)
    assert memory.size_line("tiny-bert", "float32") == ""
    assert memory.size_line("/a folder that is gone", "float32") == ""
    monkeypatch.setattr(memory, "settings", lambda: Settings(max_tokens=9))
    memory.size_line.cache_clear()
    assert "a text of 9 tokens" in memory.size_line(own, "float32")


def test_other_models_are_dropped_for_one_that_does_not_fit_beside_them(
    folder, tmp_path, monkeypatch
):
    own = str(copy(folder, tmp_path / "own"))
    memory.model("tiny-gpt2", "cpu", "float32")
    dropped = []
    let_go = memory.let_go
    monkeypatch.setattr(
        memory, "let_go", lambda everything: (dropped.append(everything), let_go(everything))
    )
    monkeypatch.setattr(building, "available", lambda: 10**9 if dropped else 0)
    assert memory.model(own, "cpu", "float32").name == own
    assert dropped == [True] and list(memory._loaded) == [(own, "cpu", "float32")]
    memory.let_go(True)
    monkeypatch.setattr(building, "available", lambda: 0)
    n_dropped = len(dropped)
    with pytest.raises(OutOfMemoryError, match="and cpu has 0 bytes free"):
        memory.model(own, "cpu", "float32")
    assert len(dropped) == n_dropped
