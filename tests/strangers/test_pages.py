"""Strangers' texts on the pages: the page stands, and shows them as they were typed."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import TextArea, TextInput

from mha_viz.errors import TextError
from mha_viz.text.cleaning import clean_text
from mha_viz.ui.state.views import FACETS, SECTIONS, TABS
from tests.strangers.addresses import opened, sendable
from tests.strangers.fuzzing import LONG
from tests.strangers.hostile_texts import LARGE, NAMED
from tests.strangers.shown import TYPED, alive
from tests.strangers.test_addresses import shows_texts_alone, stands
from tests.ui.many_texts_app import made, making, many_texts
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


@pytest.mark.parametrize(("page", "more"), SHOWN, ids=str)
def test_what_is_typed_is_shown_and_never_read_as_markup(page, more) -> None:
    app = opened(page, {"model": "tiny-bert", "text": f"the [MASK] sat {TYPED}", **more})
    shows_texts_alone(app)
    for name in BOXES[page]:
        if (box := _box(app, name)) is not None:
            box.set_value(TYPED).run()
            shows_texts_alone(app)


def test_what_is_searched_in_the_glossary_is_shown_as_it_is() -> None:
    app = opened("glossary", {"find": TYPED})
    shows_texts_alone(app)


@pytest.mark.parametrize("page", BOXES)
def test_a_link_is_told_of_as_it_is(page) -> None:
    app = opened(page, {"section": TYPED, "why": TYPED, "sort": TYPED, "model_b": TYPED[:40]})
    stands(app)
    assert app.warning
    assert not alive(app)


CASES = NAMED | {f"large: {name}": text for name, text in LARGE.items()}
DAILY = (
    *("special tokens", "direction", "controls", "10,000 marks of all kinds", "only NUL"),
    "large: marks of all kinds",
)


@pytest.mark.parametrize("name", CASES if LONG else DAILY)
def test_named_texts_and_a_megabyte_in_heads(name) -> None:
    """The page cuts what it cannot read of it, and no address carries it."""
    app = opened("heads", {"model": "tiny-gpt2", "show": "lines"})
    app.text_area(key="ask_text").set_value(sendable(CASES[name])).run()
    stands(app)
    assert not name.startswith("large") or len(app.query_params.get("text", "")) < 10_000


def _box(app: AppTest, name: str) -> TextInput | TextArea | None:
    """The box of this name, where one can type into it."""
    boxes = [one for one in (*app.text_input, *app.text_area) if one.key == f"ask_{name}"]
    return boxes[0] if boxes and not boxes[0].disabled else None


HOSTILE = {
    name: sendable(text)
    for name, text in NAMED.items()
    if len(text) < 20_000 and (LONG or not name.startswith(("plane", "category")))
} | {"read as markup": TYPED}


def readable(text: str) -> bool:
    try:
        clean_text(text)
    except TextError:
        return False
    return True


def test_hostile_texts_are_studied_and_searched() -> None:
    app = many_texts("own-texts", find="pairs")
    texts = [" ".join(text.split()) for text in HOSTILE.values()]
    app.text_area(key="own-typed").set_value("\n".join(texts))
    app = made(app.button(key="own-study").click().run())
    study = making(app).study
    assert study is not None and study.n_texts >= 0.8 * sum(map(readable, texts))
    for tab in TABS:
        app.segmented_control(key="ask_tab").set_value(tab).run()
        shows_texts_alone(app)
    app.segmented_control(key="ask_tab").set_value("one").run()
    for facet in FACETS:
        app.segmented_control(key="ask_facet").set_value(facet).run()
        shows_texts_alone(app)
    app.segmented_control(key="ask_facet").set_value("examples").run()
    app.text_input(key="ask_typed").set_value(TYPED[:600]).run()
    shows_texts_alone(app)
    app.segmented_control(key="ask_tab").set_value("find").run()
    for box in ("ask_from_word", "ask_to_word"):
        app.text_input(key=box).set_value(TYPED[:100]).run()
        shows_texts_alone(app)


@pytest.mark.parametrize(
    ("page", "box"),
    [
        ("step-by-step", "step-by-step-write"),
        ("any-pattern", "any-pattern-typed"),
        ("translation-and-pictures", "translation-and-pictures-sentence"),
        ("glossary", ""),
        ("why", "ask_pairs"),
    ],
)
@pytest.mark.parametrize("name", HOSTILE if LONG else ["read as markup", "10,000 marks"])
def test_what_is_typed_into_a_lab(page: str, box: str, name: str) -> None:
    app = opened(page, {"pattern": "own", "why": "test", "task": "own", "cross": "1"})
    boxes = [one for one in (*app.text_input, *app.text_area) if str(one.key).startswith(box)]
    assert boxes
    boxes[0].set_value(HOSTILE[name][: boxes[0].max_chars or None]).run()
    shows_texts_alone(app)
