"""The words of a head on the Heads page, what the model predicts, and how it goes on."""

from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from torch.utils.flop_counter import FlopCounterMode

import mha_viz as mv
from mha_viz.ui.heads import WORDS, drawing, head_words
from mha_viz.ui.run.written import WrittenScene
from mha_viz.ui.state.session import Session
from mha_viz.ui.state.views import HeadsView
from mha_viz.ui.widgets.components import written_text
from tests.making.comparing import close
from tests.ui.compare_app import check, table
from tests.ui.heads_app import brought, choose, heads_page, kinds_brought
from tests.ui.opening import APP, opened

LINK = dict(model="tiny-gpt2", text="The cat saw the dog. The cat saw the", layer="1", head="2")
OPENED = {WORDS: True, "OV-table": True}


def test_chosen_words_have_the_numbers_of_the_library() -> None:
    app = heads_page(session=OPENED, **LINK, listed="cat, dog bird")
    check(app)
    expected = mv.token_matrices(mv.load("tiny-gpt2"), 1, 2, ["cat", "dog", "bird"])["OV"]["dog"]
    close(table(app, "0:cat", "1:dog")["1:dog"].to_numpy(), np.asarray(expected))


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


BEGINNING = "Once upon a time"


@pytest.fixture
def page(monkeypatch):
    """The Heads page of a link; the component's calls, and the scenes that are drawn."""
    calls, scenes, heads = [], [], drawing.heads
    monkeypatch.setattr(written_text, "_component", lambda **given: calls.append(given))
    monkeypatch.setattr(
        drawing, "heads", lambda scene, **given: (scenes.append(scene), heads(scene, **given))
    )

    def open_page(model: str = "tiny-gpt2", text: str = BEGINNING, **params: str) -> AppTest:
        session = {"session": Session(is_writing=True)}
        app = opened(APP, session=session, model=model, text=text, **params)
        assert not app.exception and not app.error
        return app

    open_page.calls, open_page.scenes = calls, scenes
    return open_page


def written(page) -> list[str]:
    return [token["text"] for token in page.calls[-1]["data"]["tokens"]]


def test_a_link_with_a_seed_opens_the_same_text_and_its_record(page):
    settings = dict(next_temperature="0.9", next_top_k="40", next_seed="3")
    app = page(written="4", **settings)
    expected = mv.Writing(mv.load("tiny-gpt2"), BEGINNING, temperature=0.9, top_k=40, seed=3)
    list(expected.steps(4))
    assert written(page) == [token.text for token in expected.written]
    scene = page.scenes[-1]
    assert isinstance(scene, WrittenScene) and scene.record.text == expected.text
    assert scene.record == expected.record
    assert page.calls[-1]["data"]["coming"]["position"] == len(scene.record.tokens)
    assert set(settings) | {"written"} <= set(app.query_params)


def test_the_prediction_stands_under_the_sentence(page):
    gpt, bert = mv.load("tiny-gpt2"), mv.load("tiny-bert")
    assert coming(page()) == [("Next", *likeliest(mv.predict(gpt, BEGINNING, top_k=3)))]
    text = "The [MASK] sat on the [MASK]."
    best = mv.predict(bert, text, top_k=3)
    names = "[MASK] 1", "[MASK] 2"
    gaps = [
        (name, *likeliest(gap))
        for name, gap in zip(names, (best, *best.other_predictions), strict=True)
    ]
    assert coming(page("tiny-bert", text)) == gaps
    after = mv.Writing(gpt, BEGINNING)
    list(after.steps(2))
    ((_, _, shares),) = coming(page(written="2"))
    assert shares[0] == pytest.approx(after.upcoming.probability)


def coming(app: AppTest) -> list[tuple[str, list[str], object]]:
    """Each place of a prediction under the sentence, its tokens and their probabilities."""
    gaps = brought(app, "prediction")["next"]
    return [(name, *map(list, zip(*tokens, strict=True))) for name, tokens in gaps]


def likeliest(prediction) -> tuple[list[str], object]:
    return list(prediction.candidates), pytest.approx(list(prediction.probabilities), rel=1e-5)


@pytest.mark.parametrize(
    ("model", "text", "n_notes", "predicts"),
    [("tiny-gpt2", "cat " * 200, 1, True), ("tiny-bert", "The cat sat", 0, False),
     ("headless", "the cat", 0, False)],
)  # fmt: skip
def test_text_that_cannot_go_on_has_no_panel(page, models, model, text, n_notes, predicts):
    app = page(models.get(model, model), text)
    assert page.calls == [] and len(app.info) == n_notes
    assert ("prediction" in kinds_brought(app)) == predicts
