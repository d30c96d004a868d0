"""The workbench as a widget: what the browser chose can be read, and nothing else gets in."""

import base64

import pytest
import torch

import mha_viz as mv
from mha_viz.errors import ArgumentError
from tests.web.unpacked import grid_unpack

pytest.importorskip("anywidget")
from mha_viz.explorer import Explorer  # which needs anywidget


@pytest.fixture(scope="module")
def record() -> mv.AttentionRecord:
    return mv.load("tiny-bert").trace("The cat sat on the mat.")


def choose(explorer, **view):
    explorer.sent = {"id": "17", "view": {name: str(value) for name, value in view.items()}}


def test_a_choice_in_the_browser_can_be_read(record):
    explorer = record.explore()
    before = explorer.exact
    choose(explorer, layer=2, head=5, query=3, key=7)
    assert (explorer.selected, explorer.pair) == ((2, 5), (3, 7))
    # The answer says the same head again, or the browser would go back to the first one.
    assert explorer.settings["heard"] == "17"
    assert explorer.settings["view"] == {"layer": 2, "head": 5}
    assert torch.equal(explorer.weights, record[2, 5])
    assert explorer.exact and explorer.exact != before
    choose(explorer, query=-1, key=-1)
    assert (explorer.selected, explorer.pair) == ((2, 5), (None, None))


def test_it_begins_with_the_chosen_head_and_all_the_weights(record):
    explorer = Explorer(record, (3, 1))
    assert explorer.settings["view"] == {"layer": 3, "head": 1, "scale": "sqrt"}
    _, codes = grid_unpack(explorer.payload)
    assert codes.shape == (4, 8, 9, 9)
    assert torch.tensor(codes[3, 1]).argmax() == record[3, 1].argmax()
    with pytest.raises(ArgumentError, match="layer"):
        Explorer(record, (4, 0))


def test_it_leaves_a_picture_in_exports(record):
    explorer = Explorer(record, (0, 3))
    data, *_ = explorer._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
