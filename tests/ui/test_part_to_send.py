"""Which exact weights of the chosen head of a long text the browser gets."""

import numpy as np
import pytest
import streamlit as st

from mha_viz.text.from_weights import record
from mha_viz.ui.heads import payloads
from mha_viz.ui.state.views import HeadsView
from mha_viz.web.payload import grid_payload


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
