"""Importance and pruning on the Why page, and the texts that they are measured over."""

import pytest

import mha_viz as mv
from mha_viz.core.names import METHODS
from mha_viz.interventions import importance, pruning
from mha_viz.interventions.robustness import robustness
from mha_viz.web.theme import format_number
from tests.making.checkpoints import OTHER
from tests.making.checkpoints import TEXT as CLASSIFIED
from tests.making.comparing import close, near
from tests.ui.compare_app import check, said, table
from tests.ui.why_app import importance_page, press

TEXT = "Once upon a time there was a little dog who liked to"


def test_importance_is_that_of_the_library_by_both_methods():
    more = "The cat sat on the mat.\nTom had a red ball."
    texts = [TEXT, *more.splitlines()]
    app = importance_page("importance", more=more)
    assert "3 texts" in said(app)
    press(app, "measure")
    check(app)
    model = mv.load("tiny-gpt2")
    both = [importance.head_importance(model, texts, method) for method in METHODS]
    assert table(app, "importance", "low")["importance"].tolist() == near(
        both[0].mean.flatten().tolist()
    )
    app.selectbox(key="ask_method").set_value("gradient")
    press(app, "measure")
    check(app)
    close(table(app, "importance", "low")["high"], both[1].high.flatten())
    rho, n = importance.agreement(*both)
    assert f" {n} heads" in said(app) and f" = **{format_number(rho)}**" in said(app)
    app.selectbox(key="ask_beside").select("entropy").run()
    check(app)


def test_pruning_is_that_of_the_library(monkeypatch):
    app = importance_page("pruning", more="The cat sat on the mat.")
    press(app, "measure")
    real = pruning.head_importance

    def not_once_more(model, texts, method, *args, **options):
        assert method != "ablation"  # which has been measured
        return real(model, texts, method, *args, **options)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(pruning, "head_importance", not_once_more)
        press(app, "prune")
    check(app)
    shown = table(app, "share_left", "loss", "order")
    texts = [TEXT, "The cat sat on the mat."]
    for order in ("ablation", "redundancy", "random"):
        curve = pruning.pruning_curve(mv.load("tiny-gpt2"), texts, order, steps=8)
        assert shown[shown["order"] == order]["loss"].tolist() == near(curve.loss.tolist())
    found = robustness(mv.load("tiny-gpt2"), texts, 32)
    assert f" {format_number(found.summary()['extra'])} nats" in said(app)


def test_one_token_of_one_text_has_nothing_to_be_measured_by():
    app = importance_page(text="a", more="")
    for button in ("measure", "prune"):
        press(app, button)
        assert len(app.error) == 1 and "token" in app.error[0].value
        assert not app.exception and {"measure", "prune"} <= {part.key for part in app.button}
    app.text_area(key="ask_text").input("a dog")
    press(app, "measure")
    check(app)


# The link, and the label of importance.
KINDS = {
    "classes": ({"target": "good"}, "good"),
    "labels": ({"target": "good"}, "good"),
    "tags": ({"target": "so-so", "place": "4"}, "4:so-so"),
    "answers": ({"pair": OTHER, "target": "11", "place": "1"}, "end:11"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_importance_of_an_outcome_is_that_of_the_library(kind, models):
    link, label = KINDS[kind]
    link |= {"model": models[kind], "text": CLASSIFIED}
    app = press(importance_page("importance", more="", **link), "measure")
    assert "plays no part" not in check(app)
    model, pair = mv.load(models[kind]), link.get("pair")
    expected = mv.head_importance(model, CLASSIFIED, labels=label, text_pair=pair)
    shown = table(app, "importance", "low")["importance"].tolist()
    assert shown == near(expected.mean.flatten().tolist())
    assert "ask_against" not in {part.key for part in app.selectbox}
    app.selectbox(key="ask_target").select("").run()
    check(app)
    assert "ask_method" in {part.key for part in app.selectbox}
    assert not [shown for shown in app.dataframe if "importance" in shown.value]  # of another loss


def test_importance_of_a_number_is_of_its_error(models):
    app = press(importance_page(model=models["number"], text=CLASSIFIED, more=""), "measure")
    assert "predicts a number" in check(app)


def test_a_place_that_this_text_does_not_have_is_the_usual_one(models):
    link = {"target": "good", "place": "900"}
    app = importance_page(model=models["tags"], text=CLASSIFIED, more="", **link)
    assert " at 1 " in check(app).replace("\\", "")


@pytest.mark.parametrize("model", ["headless", "deberta", "t5"])
def test_models_whose_heads_cannot_be_switched_say_why(models, model):
    app = importance_page(model=models[model], text="the cat sat")
    check(app)
    assert len(app.info) == 1 and "measure" not in {part.key for part in app.button}


def test_the_least_important_heads_are_those_that_the_button_switches_off(monkeypatch):
    left: list[object] = []
    monkeypatch.setattr("streamlit.switch_page", lambda page, query_params: left.append(page))
    app = press(importance_page(more=""), "measure")
    importance = mv.head_importance(mv.load("tiny-gpt2"), TEXT).mean.flatten()
    app.session_state.session.pages = {"heads": "heads"}
    press(app, "open_in_heads_least")
    least = importance.argsort(stable=True)[:8].tolist()
    assert app.session_state.view.off == tuple(sorted(divmod(i, 8) for i in least))
    assert left == ["heads"]
