"""Controls of a lab: choices that the link carries, films in motion, and the list of labs."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mha_viz.core.arguments import check_index
from mha_viz.learn.frame import choices as choices_module
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.contents import BY_KEY, read_records
from mha_viz.ui.state.session import session
from tests.ui.compare_app import check
from tests.ui.lab_app import link
from tests.ui.opening import opened


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    import streamlit as st

    from mha_viz.learn.frame.choices import Choices
    from mha_viz.learn.frame.contents import LABS
    from mha_viz.ui.widgets.messages import notices

    choices = Choices(LABS[0])
    found = {
        "few": choices.slide("few", "Few", (1, 2, 4), 2),
        "menu": choices.menu("menu", "Menu", {"a": "First", "b": "Second"}, "a"),
        "segments": choices.segments("segments", "Segments", {False: "Grey", True: "RGB"}, False),
        "draw": choices.seed("draw", "Draw", width=200),
        "on": choices.toggle("on", "On"),
        "count": choices.number("count", "Count", 0, 99, 7),
        "whole": choices.amount("whole", "Whole", 0, 8, 3),
        "real": choices.amount("real", "Real", 0.0, 1.0, 0.5, step=0.25),
        "place": choices.position("place", "Place", range(4), 1, most=9, width=200),
        "text": choices.text("text", "Text", "a cat", most=8, width=200),
    }
    choices.publish()
    st.session_state.found = found
    notices.problems()


CHOSEN = {
    "few": 4, "menu": "b", "segments": True, "draw": 9, "on": True,
    "count": 99, "whole": 8, "real": 0.25, "place": 3, "text": "two dogs",
}  # fmt: skip
WRITTEN = {
    "few": "4", "menu": "b", "segments": "1", "draw": "9", "on": "1",
    "count": "99", "whole": "8", "real": "0.25", "place": "3", "text": "two dogs",
}  # fmt: skip


def page(**params: str) -> AppTest:
    return opened(_page, **params)


def found(app: AppTest) -> dict[str, object]:
    check(app)
    return app.session_state.found


def test_a_link_sets_every_control_and_is_kept():
    app = page(**WRITTEN)
    assert found(app) == CHOSEN and link(app) == WRITTEN
    assert {name: type(value) for name, value in found(app).items()} == {
        name: type(value) for name, value in CHOSEN.items()
    }


def test_what_is_chosen_goes_into_the_link():
    app, key = page(), "soft-lookup-{}".format
    app.select_slider(key=key("few")).set_value(4)
    app.selectbox(key=key("menu")).set_value("b")
    app.segmented_control(key=key("segments")).set_value(True)
    app.select_slider(key=key("draw")).set_value(9)
    app.toggle(key=key("on")).set_value(True)
    app.number_input(key=key("count")).set_value(99)
    app.slider(key=key("whole")).set_value(8)
    app.slider(key=key("real")).set_value(0.25)
    app.slider(key=key("place-3")).set_value(3)
    app.text_input(key=key("text")).set_value("two dogs").run()
    assert found(app) == CHOSEN and link(app) == WRITTEN


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


@dataclass(frozen=True)
class _Page:
    title: str


@dataclass(frozen=True)
class _Entry:
    name: str
    minutes: int = 0
    pages: tuple[_Page, ...] = ()


def _read(tmp_path: Path, text: str) -> tuple[_Entry, ...]:
    path = tmp_path / "some.toml"
    path.write_text(text, "utf-8")
    return read_records(_Entry, path, "entry")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("minutes = 3", "some.toml.*entry 1.*name"),
        ('name = "a"\ngaol = 3', "some.toml.*entry 1.*gaol"),
        ('name = "a"\npages = [{ title = 3 }]', "entry 1.*pages 1.*title.*str"),
    ],
)
def test_read_records_wrong_entry_is_named(tmp_path, entry, message):
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, f"[[entry]]\n{entry}\n")
