"""What a player hands on: the next value, and an address that waits until it rests."""

import pytest
import streamlit as st

from mha_viz.core.arguments import check_index
from mha_viz.learn.frame import choices as choices_module
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.contents import BY_KEY
from mha_viz.ui.state.session import session


@pytest.fixture
def player(monkeypatch):
    """The component's stand-in, which keeps what it was called with."""
    called = {}
    monkeypatch.setattr(choices_module, "_player", lambda **given: called.update(given))
    monkeypatch.setattr(st, "session_state", _State())
    return called


class _State(dict):
    __getattr__, __setattr__ = dict.__getitem__, dict.__setitem__


class _Choices(Choices):
    def __init__(self):
        self.lab, self.moving, self.chosen = BY_KEY["soft-lookup"], False, {}

    def set(self, name, value):
        self.chosen[name] = value


def _sent(player, to, playing):
    st.session_state[player["key"]] = {"step": {"to": to, "playing": playing}}
    player["on_step_change"]()


def test_a_step_is_a_choice_and_the_address_waits_for_the_last(player):
    choices = _Choices()
    choices.play("temperature", 0.9, (5.0, 1.0, 0.5), "the temperature")
    assert player["data"] == {"at": 1, "last": 2, "what": "the temperature"}
    _sent(player, 2, True)
    assert choices.chosen == {"temperature": 0.5} and choices.moving
    _sent(player, 0, False)
    assert choices.chosen == {"temperature": 5.0} and not choices.moving


def test_what_is_no_step_changes_nothing(player):
    choices = _Choices()
    choices.play("temperature", 5.0, (5.0, 1.0), "the temperature")
    for to, playing in ((2, True), (-1, True), ("1", True), (1, 1), (None, None)):
        _sent(player, to, playing)
    assert choices.chosen == {} and not choices.moving


def test_an_error_of_a_step_becomes_a_sentence_on_the_page(player, monkeypatch):
    choices = _Choices()
    monkeypatch.setattr(choices, "set", lambda *given: check_index("step", 2, 2))
    choices.play("temperature", 5.0, (5.0, 1.0), "the temperature")
    _sent(player, 1, True)
    assert len(session().faults) == 1
