"""What a page measures of heads: kept for the next one, unless nobody waits for it any more."""

import pytest
import torch
from streamlit.runtime.state.session_state_proxy import SessionStateProxy

from mha_viz.core.metrics.pairs import hellinger
from mha_viz.ui.run import memory, page_lock, reporting
from mha_viz.ui.run.scene import Scene

SCENE = Scene("a model", "cpu", "float32", "encoder", "a text", None)


class Overtaken(BaseException):
    """As what Streamlit raises where a run that was overtaken reads its state."""


def test_an_overtaken_run_ends_with_its_block_and_leaves_nothing(monkeypatch) -> None:
    running, ended, contains = [], [], SessionStateProxy.__contains__

    def read(self, key):
        if running:
            running.clear()
            raise Overtaken
        return contains(self, key)

    def make():
        running.append(1)
        found = hellinger(torch.rand(2, 3, 5, 5).softmax(-1))
        ended.append(1)
        return found

    monkeypatch.setattr(SessionStateProxy, "__contains__", read)
    monkeypatch.setattr(page_lock, "PATIENCE", -1.0)
    with pytest.raises(Overtaken):
        reporting.cached(SCENE, "a measure", make=make)
    assert not ended and memory.cache().find((SCENE.key, "a measure")) is None
    monkeypatch.setattr(SessionStateProxy, "__contains__", contains)
    found = reporting.cached(SCENE, "a measure", make=make)
    assert ended and reporting.cached(SCENE, "a measure", make=make) is found
