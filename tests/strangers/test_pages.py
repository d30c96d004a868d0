"""Strangers' texts on the pages: the page stands, and shows them as they were typed."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import TextArea, TextInput

from mha_viz.ui.state.views import SECTIONS
from tests.strangers.addresses import opened, sendable
from tests.strangers.fuzzing import LONG
from tests.strangers.hostile_texts import LARGE, NAMED
from tests.strangers.shown import TYPED, alive
from tests.strangers.test_addresses import stands
from tests.ui.why_app import LINKS as WHY_LINKS

BOXES = {
    "heads": ("text", "pair", "source", "target", "against"),
    "compare": ("text", "pair", "text_b"),
    "why": ("text", "source", "target", "against", "more_texts"),
}
VIEWS = [
    ("heads", {"show": "table"}),
    *(("compare", {"section": section}) for section in SECTIONS),
    ("heads", {"how": "patch_z", "off": "0.1"}),
    *(("why", link) for link in WHY_LINKS),
]
SHOWN = VIEWS if LONG else [VIEWS[i] for i in (0, 1, 4, 5, 11, 15)]


def _careless() -> None:
    """Runs as an app, so it imports what it needs."""
    import streamlit as st

    from tests.strangers.shown import TYPED

    st.caption(TYPED)
    st.radio("a", [TYPED])
    st.segmented_control("b", [TYPED])
    st.tabs([TYPED])
    st.metric(TYPED, 1)
    st.table({"c": [TYPED]})
    st.code(TYPED)  # harmless, as is what a box holds
    st.text_input("d", TYPED)


def test_whatever_is_read_as_markup_is_found() -> None:
    found = alive(AppTest.from_function(_careless).run())
    assert len([piece for piece in found if piece.startswith(r"(?<!\\):cake:")]) == 6, found


def typed(app: AppTest, page: str, text: str) -> None:
    """The text in one box of the page after the other."""
    for name in BOXES[page]:
        if (box := _box(app, name)) is not None:
            box.set_value(text).run()
            stands(app)
            assert not alive(app)


@pytest.mark.parametrize(("page", "more"), SHOWN, ids=str)
def test_what_is_typed_is_shown_and_never_read_as_markup(page, more) -> None:
    app = opened(page, {"model": "tiny-bert", "text": f"the [MASK] sat {TYPED}", **more})
    stands(app)
    assert not alive(app)
    typed(app, page, TYPED)


def test_what_is_searched_in_the_glossary_is_shown_as_it_is() -> None:
    app = opened("glossary", {"find": TYPED})
    stands(app)
    assert not alive(app)


@pytest.mark.parametrize("page", BOXES)
def test_a_link_is_told_of_as_it_is(page) -> None:
    app = opened(page, {"section": TYPED, "why": TYPED, "sort": TYPED, "model_b": TYPED[:40]})
    stands(app)
    assert app.warning
    assert not alive(app)


DAILY = ("special tokens", "direction", "controls", "10,000 marks of all kinds", "only NUL")


@pytest.mark.parametrize("name", NAMED if LONG else DAILY)
def test_named_texts_in_explore(name) -> None:
    app = opened("heads", {"model": "tiny-gpt2", "show": "lines"})
    app.text_area(key="ask_text").set_value(sendable(NAMED[name])).run()
    stands(app)


@pytest.mark.parametrize("name", LARGE if LONG else ["marks of all kinds"])
def test_a_megabyte_in_explore(name) -> None:
    """The page cuts what it cannot read of it, and no address carries it."""
    app = opened("heads", {"model": "tiny-gpt2", "show": "lines"})
    app.text_area(key="ask_text").set_value(sendable(LARGE[name])).run()
    stands(app)
    assert len(app.query_params.get("text", "")) < 10_000


def _box(app: AppTest, name: str) -> TextInput | TextArea | None:
    """The box of this name, where one can type into it."""
    boxes = [one for one in (*app.text_input, *app.text_area) if one.key == f"ask_{name}"]
    return boxes[0] if boxes and not boxes[0].disabled else None
