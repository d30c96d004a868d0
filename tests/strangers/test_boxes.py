"""Strangers' texts in the other boxes of the app: texts to be studied, labs, the glossary."""

from __future__ import annotations

import pytest

from mha_viz.errors import TextError
from mha_viz.text.cleaning import clean_text
from mha_viz.ui.state.views import FACETS, TABS
from tests.strangers.addresses import opened, sendable
from tests.strangers.fuzzing import LONG
from tests.strangers.hostile_texts import NAMED
from tests.strangers.shown import TYPED, alive
from tests.strangers.test_addresses import stands
from tests.ui.many_texts_app import made, making, many_texts

KINDS = ("plane", "category")  # hundreds of characters each, for `make fuzz`
HOSTILE = {
    name: sendable(text)
    for name, text in NAMED.items()
    if len(text) < 20_000 and (LONG or not name.startswith(KINDS))
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
        stands(app)
        assert not alive(app)
    app.segmented_control(key="ask_tab").set_value("one").run()
    for facet in FACETS:
        app.segmented_control(key="ask_facet").set_value(facet).run()
        stands(app)
        assert not alive(app)
    app.segmented_control(key="ask_facet").set_value("examples").run()
    app.text_input(key="ask_typed").set_value(TYPED[:600]).run()
    stands(app)
    assert not alive(app)
    app.segmented_control(key="ask_tab").set_value("find").run()
    for box in ("ask_from_word", "ask_to_word"):
        app.text_input(key=box).set_value(TYPED[:100]).run()
        stands(app)
        assert not alive(app)


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
    stands(app)
    assert not alive(app)
