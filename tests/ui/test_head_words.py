"""The words of a head on the Heads page: its QK and OV circuits, and the work that they expect."""

from typing import Any

import numpy as np
import pytest
from torch.utils.flop_counter import FlopCounterMode

import mha_viz as mv
from mha_viz.ui.heads import WORDS, head_words
from mha_viz.ui.state.views import HeadsView
from tests.making.comparing import close
from tests.ui.compare_app import check, table
from tests.ui.heads_app import choose, heads_page

LINK = dict(model="tiny-gpt2", text="The cat saw the dog. The cat saw the", layer="1", head="2")
OPENED = {WORDS: True, "OV-table": True}

# The link, columns of a table, and what the library has in the last one.
TABLES = {
    "pairs": (
        {},
        ("query", "strength"),
        lambda model: mv.head_vocabulary(model, 1, 2).circuits["QK"].pairs.strength,
    ),
    "chosen words": (
        dict(listed="cat, dog bird"),
        ("0:cat", "1:dog"),
        lambda model: mv.token_matrices(model, 1, 2, ["cat", "dog", "bird"])["OV"]["dog"],
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_words_of_the_chosen_head_are_those_of_the_library(case: str) -> None:
    link, columns, expected = TABLES[case]
    app = heads_page(session=OPENED, **LINK, **link)
    check(app)
    numbers = np.asarray(expected(mv.load("tiny-gpt2"))).ravel()
    close(table(app, *columns)[columns[-1]].to_numpy(), numbers)


def test_words_follow_the_head_and_an_unknown_word_is_named_beside_its_box() -> None:
    app = heads_page(session=OPENED, **LINK, listed="cat zyxwvut")
    assert not app.exception and "zyxwvut" in app.error[0].value
    app.text_input(key="ask_listed").set_value("").run()
    before = table(app, "query", "strength")["strength"].to_numpy()
    choose(app, layer=2)
    check(app)
    expected = mv.head_vocabulary(mv.load("tiny-gpt2"), 2, 2).circuits["QK"].pairs.strength
    after = table(app, "query", "strength")["strength"].to_numpy()
    close(after, expected)
    assert not np.allclose(after, before)


def test_vocabulary_expects_the_seconds_that_its_multiplications_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, expected = mv.load("tiny-gpt2"), list[float]()
    view = HeadsView(model="tiny-gpt2", device="cpu", layer=1, head=2)
    monkeypatch.setattr(head_words.memory, "model", lambda *_: model)
    monkeypatch.setattr(head_words.heavy, "model_of", lambda _: model)
    monkeypatch.setattr(head_words.heavy, "work", lambda work, _, seconds: expected.append(seconds))
    monkeypatch.setattr(head_words.progress, "done", lambda *_: None)

    def on_request(kind: str, key: object, make: Any, *_: str) -> None:
        make()

    monkeypatch.setattr(head_words.progress, "on_request", on_request)
    monkeypatch.setattr(head_words, "AT_ONCE", 0.0)
    head_words._vocabulary(view)
    with FlopCounterMode(display=False) as counter:
        mv.head_vocabulary(model, *view.chosen)
    n_operations = head_words.RATE * expected[0]
    assert n_operations == pytest.approx(counter.get_total_flops(), rel=0.25)
