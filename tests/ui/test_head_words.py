"""The words of a head on the Heads page, and what the model predicts with it and without."""

from typing import Any

import numpy as np
import pytest
from torch.utils.flop_counter import FlopCounterMode

import mha_viz as mv
from mha_viz.ui.heads import WORDS, head_words
from mha_viz.ui.state.views import HeadsView
from tests.making.comparing import close
from tests.ui.compare_app import check, table
from tests.ui.heads_app import brought, choose, heads_page

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


TEXT = "The old dog saw the young dog."


@pytest.mark.parametrize(
    ("model", "text", "measured"),
    [
        ("tiny-gpt2", TEXT, TEXT),
        ("tiny-bert", "The old dog [MASK] the young dog.", "The old dog [MASK] the young dog."),
        ("tiny-bert", TEXT, "The old dog saw the young [MASK]."),  # its last word is masked
    ],
)
def test_heads_that_are_off_bring_the_likeliest_tokens_of_an_ablation(
    model, text, measured
) -> None:
    app = heads_page(model=model, text=text, off="0.2,1.3")
    sent = brought(app, "prediction")
    ablation = mv.ablate(mv.load(model), measured, heads=[(0, 2), (1, 3)])
    expected = ablation.table().nlargest(5, "after")
    assert sent["off"] == [[0, 2], [1, 3]]
    assert [row[0].lstrip("…") for row in sent["rows"]] == expected["token"].tolist()
    rows = np.array([row[1:] for row in sent["rows"]], dtype=float)
    np.testing.assert_allclose(rows, expected[["before", "after"]], rtol=1e-5)
    assert sent["kl"] == pytest.approx(ablation.kl, rel=1e-5)


def test_heads_that_the_model_does_not_have_are_left_out_and_named() -> None:
    app = heads_page(model="tiny-gpt2", text=TEXT, off="0.2,40.1")
    assert brought(app, "prediction")["off"] == [[0, 2]]
    assert any("L40 H1" in warning.value for warning in app.warning)


def test_nothing_is_predicted_while_all_heads_are_on() -> None:
    sent = brought(heads_page(model="tiny-gpt2", text=TEXT), "prediction")
    assert sent["off"] == [] and not {"rows", "numbers", "kl", "message"} & sent.keys()


def test_a_text_without_a_word_says_that_nothing_can_be_predicted() -> None:
    sent = brought(heads_page(model="tiny-bert", text=". , !", off="0.2"), "prediction")
    assert sent["message"] and "rows" not in sent


def test_the_token_that_was_likeliest_is_among_those_shown_when_it_falls_far() -> None:
    text = "In spring Captain Zorval opened the green box. At night Captain Zorval opened the green"
    rows = brought(heads_page(model="tiny-gpt2", text=text, off="0.7"), "prediction")["rows"]
    assert len(rows) == 5 and rows[-1][0] == "box"
    assert rows[-1][1] > 0.5 > 0.05 > rows[-1][2]
    expected = mv.ablate(mv.load("tiny-gpt2"), text, heads=[(0, 7)]).table().nlargest(4, "after")
    assert [row[0].lstrip("…") for row in rows[:4]] == expected["token"].tolist()
