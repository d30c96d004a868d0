"""Texts that are too long for an address: what its reload, its link and another visitor show."""

import random
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.ui.operating.settings import Settings
from mha_viz.ui.state import long_texts
from mha_viz.ui.state.link_values import Pin, reference, text_hash
from mha_viz.ui.state.links import GONE_MESSAGES, from_params, long_values, to_params
from mha_viz.ui.state.long_texts import LongTexts
from mha_viz.ui.state.views import DEFAULT
from tests.ui.opening import opened

LONG = "The old dogs slept. " * 100
MAKERS: list[Callable[[Path], LongTexts]] = [
    lambda folder: LongTexts(),
    lambda folder: LongTexts(folder / "texts.sqlite"),
]


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Begin with a server that keeps nothing; `begin(**settings)` starts it anew."""

    def begin(**settings: Any) -> None:
        monkeypatch.setattr(long_texts, "settings", lambda: Settings(**settings))
        long_texts.texts.cache_clear()

    begin()
    yield begin
    long_texts.texts.cache_clear()


def _page() -> None:
    import streamlit as st

    from mha_viz.ui.state import selection
    from mha_viz.ui.state.session import session

    selection.on_page_enter("heads")
    selection.sync_from_url()
    selection.bound("text", st.text_area, "Sentence")
    st.session_state.shown = selection.current().text, list(session().problems)
    selection.push_url()


def typed(text: str) -> AppTest:
    app = opened(_page)
    app.text_area(key="ask_text").set_value(text).run()
    return app


@pytest.mark.parametrize("text", [LONG, "ü👍" * 800, reference("a text that looks like one")])
def test_address_of_a_long_text_opens_it_until_the_server_is_started_anew(server, text):
    link = typed(text).query_params["text"]
    assert link == reference(text) and len(link) < 50
    assert opened(_page, text=link, layer="2").session_state["shown"] == (text, [])
    server()
    app = opened(_page, text=link, layer="2")
    assert app.session_state["shown"] == (DEFAULT.text, [GONE_MESSAGES[0]])
    assert (app.query_params["layer"], app.query_params["text"]) == ("2", DEFAULT.text)


def test_shared_folder_keeps_long_texts_over_a_new_start_and_for_another_process(server, tmp_path):
    server(shared=str(tmp_path / "shared"))
    link = typed(LONG).query_params["text"]
    another = LongTexts(tmp_path / "shared" / long_texts.FILE)
    assert another.find(text_hash(LONG)) == LONG
    server(shared=str(tmp_path / "shared"))
    assert opened(_page, text=link).session_state["shown"] == (LONG, [])


def test_short_text_is_not_kept(server):
    typed("A short one.")
    assert long_texts.find(text_hash("A short one.")) is None


@pytest.mark.parametrize("make", MAKERS, ids=["memory", "file"])
def test_kept_texts_are_those_used_last_within_both_bounds(make, tmp_path, monkeypatch):
    most, most_of_owner, dice = 4_000, 1_500, random.Random(3)
    monkeypatch.setattr(long_texts, "MAX_BYTES", most)
    kept, model = make(tmp_path), OrderedDict[str, str]()  # text -> owner, the last used last
    texts = [f"{i}" * dice.choice([100, 300, 700, 1_600]) for i in range(10, 50)]
    for _ in range(400):
        text, owner = dice.choice(texts), dice.choice("abcd")
        if dice.random() < 0.3:
            assert kept.find(text_hash(text)) == (text if text in model else None)
        else:
            kept.keep(text, owner, most_of_owner)
            if text not in model and len(text) <= most_of_owner:
                model[text] = owner
        if text not in model:
            continue
        model.move_to_end(text)
        for bound, owners in ((most_of_owner, model[text]), (most, "abcd")):
            held = [one for one in model if model[one] in owners]
            while sum(map(len, held)) > bound:
                del model[held.pop(0)]
    assert 3 < len(model) < len(texts)
    assert [kept.find(text_hash(text)) == text for text in texts] == [one in model for one in texts]


def test_visitor_of_a_public_server_has_a_bound_of_their_own(server, monkeypatch):
    server(public=True)
    monkeypatch.setattr(long_texts, "MAX_VISITOR_BYTES", 3 * len(LONG))
    monkeypatch.setattr(long_texts.streamlit_run, "visitor_address", lambda: "8.8.8.8")
    links = [typed(f"{i}{LONG[1:]}").query_params["text"] for i in range(4)]
    monkeypatch.setattr(long_texts.streamlit_run, "visitor_address", lambda: "9.9.9.9")
    typed(f"4{LONG[1:]}")
    problems = [opened(_page, text=link).session_state["shown"][1] for link in links]
    assert problems == [[GONE_MESSAGES[0]], [], [], []]


@pytest.mark.parametrize(
    "name", ["", "..", "../texts", "A" * 32, "a" * 33, "a" * 31, "é" * 32, "' or 1=1 --", "0" * 32]
)
def test_find_takes_nothing_but_a_hash(name):
    texts = LongTexts()
    texts.keep(LONG)
    assert texts.find(name) is None


def test_text_that_is_not_that_of_its_hash_is_not_shown(tmp_path):
    path = tmp_path / "texts.sqlite"
    LongTexts(path).keep(LONG)
    with sqlite3.connect(path) as database:
        database.execute("update texts set content = ?", (b"Another one.",))
    assert LongTexts(path).find(text_hash(LONG)) is None


def test_file_that_cannot_be_used_is_no_fault_of_a_page(server, tmp_path, monkeypatch):
    monkeypatch.setattr(long_texts, "_PATIENCE", 0.05)
    server(shared=str(tmp_path))
    link = typed(LONG).query_params["text"]
    with sqlite3.connect(tmp_path / long_texts.FILE) as other:
        other.execute("begin exclusive")
        assert not typed("1" + LONG).exception
        assert opened(_page, text=link).session_state["shown"] == (DEFAULT.text, [GONE_MESSAGES[0]])
        other.rollback()
    assert opened(_page, text=link).session_state["shown"] == (LONG, [])
    (tmp_path / long_texts.FILE).write_bytes(b"no database" * 100)
    server(shared=str(tmp_path))
    link = typed(LONG).query_params["text"]  # in memory
    assert opened(_page, text=link).session_state["shown"] == (LONG, [])


def test_pins_too_long_for_an_address_are_kept_like_texts():
    dice = random.Random(1)
    texts = ["".join(dice.choices("abcdefghij klmnop", k=1_400)) for _ in range(9)]
    view = replace(DEFAULT, pins=tuple(Pin("tiny-bert", t, "", "self", 1, 2) for t in texts))
    (packed,) = long_values(view)
    assert len(to_params(view)["pins"]) < 50
    assert from_params(to_params(view), stored={text_hash(packed): packed}.get) == (view, [])
    assert from_params(to_params(view)) == (DEFAULT, [GONE_MESSAGES[1]])
