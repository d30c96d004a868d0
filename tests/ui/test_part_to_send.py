"""Heads as the browser gets them: the grid, and exact weights of a part of a long text."""

from typing import Any

import numpy as np
import pytest
import streamlit as st

from mha_viz.text.from_weights import record
from mha_viz.ui.heads import payloads
from mha_viz.ui.state.views import HeadsView
from mha_viz.ui.widgets.components import head_grid as module
from mha_viz.web.payload import grid_payload, unpack


@pytest.fixture
def send(monkeypatch):
    """`send(window)`: the part that is sent of a text of 300 tokens in the same session."""
    monkeypatch.setattr(st, "session_state", {})
    pattern = np.full((1, 2, 300, 300), 1 / 300, dtype=np.float32)
    made = record(pattern, [f"t{i}" for i in range(300)])
    payload = grid_payload(made)

    def send(*window, head=0):
        return payloads.part_to_send(payload, made, HeadsView(layer=0, head=head, window=window))

    return send


def test_of_a_head_that_is_not_too_large_all_is_sent_and_stays(send):
    whole = range(300), range(300)
    assert send() == whole
    assert send((10, 20), (10, 20)) == whole  # the browser has it already


def test_what_is_shown_is_sent_in_whole_blocks_until_one_leaves_them(send):
    blocks = range(128), range(128, 300)
    assert send((10, 20), (130, 290)) == blocks
    assert send((11, 21), (128, 299)) == blocks
    assert send((120, 130), (130, 290)) == (range(256), range(128, 300))
    assert send((10, 20), (10, 20), head=1) == (range(128), range(128))


def test_what_is_too_large_is_not_sent(send, monkeypatch):
    monkeypatch.setattr(payloads, "MAX_CELLS", 2_000)
    assert send() is None
    assert send((0, 99), (0, 99)) is None
    assert send((100, 139), (100, 149)) == (range(100, 140), range(100, 150))  # not its blocks


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record what goes to the browser."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "_grid", lambda *, data, **_: said.append(data))
    monkeypatch.setattr(module, "carry", lambda payload, *, key: None)
    monkeypatch.setattr(module.st, "session_state", {})
    return said


def test_a_payload_is_named(drawn: list[dict[str, Any]]) -> None:
    pattern = np.full((2, 3, 5, 5), 0.2, dtype=np.float32)
    payload = grid_payload(record(pattern, list("abcde")))
    module.head_grid(payload, selected=(1, 2), order=[(1, 0)], fact="entropy", key="k")
    assert drawn[0]["payload"] == unpack(payload)[0]["id"] and "error" not in drawn[0]
    assert (drawn[0]["selected"], drawn[0]["order"]) == ([1, 2], [[1, 0]])
    assert (drawn[0]["scale"], drawn[0]["fact"], drawn[0]["heard"]) == ("sqrt", "entropy", None)


@pytest.mark.parametrize("kept", [0, 3, 40])
def test_a_payload_that_is_cut_short_is_told_in_words(
    drawn: list[dict[str, Any]], kept: int
) -> None:
    pattern = np.full((2, 3, 5, 5), 0.2, dtype=np.float32)
    module.head_grid(grid_payload(record(pattern, list("abcde")))[:kept], key="k")
    assert drawn[0]["payload"] is None
    assert drawn[0]["error"].startswith("This picture cannot be drawn: ")
