"""What a session takes from a page that has shown longer texts than its address can say."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.ui.state import reconnect
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
