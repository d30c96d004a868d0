"""A model that goes on with the sentence in Heads, and what it predicts, without a browser."""

import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.ui.heads import drawing
from mha_viz.ui.run.written import WrittenScene
from mha_viz.ui.state.session import Session
from mha_viz.ui.widgets.components import written_text
from tests.ui.heads_app import brought, kinds_brought
from tests.ui.opening import APP, opened

TEXT = "Once upon a time"


@pytest.fixture
def page(monkeypatch):
    """The Heads page of a link; the component's calls, and the scenes that are drawn."""
    calls, scenes, heads = [], [], drawing.heads
    monkeypatch.setattr(written_text, "_component", lambda **given: calls.append(given))
    monkeypatch.setattr(
        drawing, "heads", lambda scene, **given: (scenes.append(scene), heads(scene, **given))
    )

    def open_page(model: str = "tiny-gpt2", text: str = TEXT, **params: str) -> AppTest:
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
    expected = mv.Writing(mv.load("tiny-gpt2"), TEXT, temperature=0.9, top_k=40, seed=3)
    list(expected.steps(4))
    assert written(page) == [token.text for token in expected.written]
    scene = page.scenes[-1]
    assert isinstance(scene, WrittenScene) and scene.record.text == expected.text
    assert scene.record == expected.record
    assert page.calls[-1]["data"]["coming"]["position"] == len(scene.record.tokens)
    assert set(settings) | {"written"} <= set(app.query_params)


def test_the_prediction_stands_under_the_sentence(page):
    gpt, bert = mv.load("tiny-gpt2"), mv.load("tiny-bert")
    assert coming(page()) == [("Next", *likeliest(mv.predict(gpt, TEXT, top_k=3)))]
    text = "The [MASK] sat on the [MASK]."
    best = mv.predict(bert, text, top_k=3)
    names = "[MASK] 1", "[MASK] 2"
    gaps = [
        (name, *likeliest(gap))
        for name, gap in zip(names, (best, *best.other_predictions), strict=True)
    ]
    assert coming(page("tiny-bert", text)) == gaps
    after = mv.Writing(gpt, TEXT)
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
