"""What a page measures of heads: kept for the next one, unless nobody waits for it any more."""

import pytest
import torch
from streamlit.delta_generator import DeltaGenerator

from mha_viz.core.metrics.pairs import hellinger
from mha_viz.ui.session import memory, reporting
from mha_viz.ui.session.scene import Scene

SCENE = Scene("a model", "cpu", "float32", "encoder", "a text", None)


class Overtaken(BaseException):
    """As what Streamlit raises where it draws in a run that was overtaken."""


def test_an_overtaken_run_ends_with_its_block_and_leaves_nothing(monkeypatch) -> None:
    running, ended, empty = [], [], DeltaGenerator.empty

    def draw(self):
        if running:
            running.clear()
            raise Overtaken
        return empty(self)

    def make():
        running.append(1)
        found = hellinger(torch.rand(2, 3, 5, 5).softmax(-1))
        ended.append(1)
        return found

    monkeypatch.setattr(DeltaGenerator, "empty", draw)
    monkeypatch.setattr(reporting, "PATIENCE", -1.0)
    with pytest.raises(Overtaken):
        reporting.remembered(SCENE, "a measure", make=make)
    assert not ended and memory.cache().find((SCENE.key, "a measure")) is None
    monkeypatch.setattr(DeltaGenerator, "empty", empty)
    found = reporting.remembered(SCENE, "a measure", make=make)
    assert ended and reporting.remembered(SCENE, "a measure", make=make) is found
