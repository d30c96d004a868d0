"""What a session takes from a page that has shown longer texts than its address can say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import AppTest

from mha_viz.ui.operating.streamlit_run import Superseded
from mha_viz.ui.state import reconnect, state
from mha_viz.ui.state.link_values import Pin, written
from mha_viz.ui.state.views import DEFAULT

LONG = "The old dogs slept. " * 100
PARAMS = {"model": "tiny-gpt2", "place": "300"}


def _page() -> None:
    import streamlit as st

    from mha_viz.ui.state import reconnect, state

    reconnect.restore_texts()
    with state.restoring_ends():
        state.bound("text", st.text_input, "Sentence")
        st.session_state.shown = state.current()
        state.change(place=-1)  # as where a text does not have that place


class Browser:
    """A page in a browser: what it was told last, and what it says in the next run."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self._says: object = None
        self._app = AppTest.from_function(_page)
        for name, value in PARAMS.items():
            self._app.query_params[name] = value

    def __call__(self, *, data: dict[str, Any], **_: object) -> Any:
        self.told = data
        return type("Result", (), {"held": self._says})

    def run(self, says: object = None, typed: str | None = None) -> Any:
        """The view with which a run begins."""
        self._says = says
        if typed is not None:
            self._app.text_input(key="ask_text").set_value(typed)
        self._app.run()
        assert not self._app.exception
        return self._app.session_state["shown"]


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Browser:
    page = Browser()
    monkeypatch.setattr(reconnect, "_component", lambda: page)
    return page


def held(session: object = "before", params: object = PARAMS, **texts: object) -> dict[str, object]:
    return {"session": session, "params": params, "texts": texts}


@pytest.mark.parametrize("first", [False, True])
def test_a_session_takes_long_texts_even_if_it_has_shown_the_example(browser, first):
    if first:
        assert browser.run().text == DEFAULT.text
        assert browser.told["texts"] == {} and browser.told["after"] == ""
    view = browser.run(held(text=LONG))
    assert (view.text, view.model) == (LONG, "tiny-gpt2")
    browser.run()
    assert browser.told["texts"] == {"text": LONG} and browser.told["after"] == "before"


def test_the_address_counts_as_it_was_before_the_example_was_shown(browser):
    assert browser.run().place == 300
    browser.run()
    assert browser.run().place == -1
    assert browser.run(held(text=LONG)).place == 300


def test_what_was_taken_is_not_taken_twice_nor_from_the_session_itself(browser):
    browser.run(held(text=LONG))
    for session in ("before", browser.told["session"]):
        assert browser.run(held(session, text=LONG + "older")).text == LONG


def test_what_the_browser_sent_before_it_heard_of_a_text_does_not_replace_it(browser, monkeypatch):
    """A chart may say something after the first run, with the example in the sentence's box."""
    browser.run()
    assert browser.run(held(text=LONG)).text == LONG
    assert browser.run(typed=DEFAULT.text).text == LONG
    assert browser.run(typed="Another one.").text == "Another one."
    now = state.monotonic() + state.HEARS
    monkeypatch.setattr(state, "monotonic", lambda: now)
    assert browser.run(typed=DEFAULT.text).text == DEFAULT.text


def test_what_a_newer_run_interrupts_is_taken_by_that_one(browser, monkeypatch):
    restore, interrupted = state.restore, []

    def interrupt_once(*given):
        if not interrupted:
            interrupted.append(given)
            raise Superseded(RerunData())  # which runs the page again
        restore(*given)

    monkeypatch.setattr(state, "restore", interrupt_once)
    assert browser.run(held(text=LONG)).text == LONG and interrupted


def test_pins_that_are_too_long_for_the_address_come_back(browser):
    words = np.random.default_rng(5).integers(10**9, size=1_999).astype(str).tolist()
    pins = (Pin("tiny-bert", " ".join(words), "", "self", 1, 2, "a note"),)
    assert browser.run(held(pins=written(pins), text=LONG)).pins == pins
    view = browser.run()
    assert (view.pins, view.text) == (pins, LONG)
    assert browser.told["texts"] == {"text": LONG, "pins": written(pins)}


def test_a_text_in_the_address_is_not_replaced(browser):
    view = browser.run(held(params=PARAMS | {"text": "A short one."}, text=LONG, pair=LONG))
    assert (view.text, view.pair) == ("A short one.", LONG)


@pytest.mark.parametrize(
    "says",
    [
        "held",
        {},
        held(None, text=LONG),
        held([], text=LONG),
        held("x" * 10**6, text="\ud800"),
        held(text=1),
        held(text=["a"], model="tiny-bert", off="0.0"),
        held(text="a" * 2_000_000),
        {"session": "before", "texts": [LONG]},
        {"session": "before", "texts": None, "params": 3},
    ],
    ids=lambda says: repr(says)[:40],
)
def test_anyone_can_say_anything(browser, says):
    view = browser.run(says)
    assert (view.text, view.off, view.model) == (DEFAULT.text, (), "tiny-gpt2")
    browser.run()
    assert len(browser.told["after"]) <= len(browser.told["session"])


def test_an_address_that_makes_no_sense_is_one_that_names_nothing(browser):
    view = browser.run(held(params={"model": "\ud800", "layer": [1], "scale": "x"}, text=LONG))
    assert (view.text, view.model, view.scale) == (LONG, DEFAULT.model, DEFAULT.scale)


def _text_box() -> None:
    import streamlit as st

    from mha_viz.ui.state import state

    view = state.current()
    take = lambda text: state.change(text=text)  # noqa: E731
    state.control("box", st.text_input, "Text", value=view.text, take=take)


def test_control_of_a_restored_view_hears_no_widget_until_a_run_has_shown_it():
    app = AppTest.from_function(_text_box, default_timeout=100).run()
    app.session_state["view"] = replace(DEFAULT, text=LONG)
    app.session_state["restoring"] = True
    app.text_input(key="box").set_value("as it was drawn before").run()
    assert app.text_input(key="box").value == app.session_state["view"].text == LONG
    del app.session_state["restoring"]
    app.text_input(key="box").set_value("Typed now.").run()
    assert app.session_state["view"].text == "Typed now."


@pytest.mark.parametrize(("error", "ends"), [(Superseded(RerunData()), False), (OSError(), True)])
def test_restoring_ends_with_a_run_unless_it_is_superseded(monkeypatch, error, ends):
    held = {"restoring": True}
    monkeypatch.setattr(state.st, "session_state", held)
    with pytest.raises(type(error)), state.restoring_ends():
        raise error
    assert ("restoring" not in held) is ends
    with state.restoring_ends():
        pass
    assert not held
