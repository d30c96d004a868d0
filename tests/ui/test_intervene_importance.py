"""Importance and pruning on the Intervene page, and the texts that they are measured over."""

import re

import mha_viz as mv
from mha_viz.core.names import METHODS
from mha_viz.interventions import importance, pruning
from mha_viz.interventions.robustness import robustness
from mha_viz.web.theme import format_number
from tests.making.comparing import close, near
from tests.ui.compare_app import check, said, table
from tests.ui.intervene_app import TEXT, intact, intervene, off, press


def test_importance_is_that_of_the_library_by_both_methods():
    more = "The cat sat on the mat.\nTom had a red ball."
    texts = [TEXT, *more.splitlines()]
    app = intervene("importance", more=more, off="1.1")
    assert "3 texts" in said(app)
    press(app, "measure")
    check(app)
    model = mv.load("tiny-gpt2")
    both = [importance.head_importance(model, texts, method) for method in METHODS]
    assert table(app, "importance", "low")["importance"].tolist() == near(
        both[0].mean.flatten().tolist()
    )
    app.segmented_control(key="ask_method").set_value("gradient")
    press(app, "measure")
    check(app)
    close(table(app, "importance", "low")["high"], both[1].high.flatten())
    rho, n = importance.agreement(*both)
    assert f" {n} heads" in said(app) and f" = **{format_number(rho)}**" in said(app)
    assert off(app) == ((1, 1),)
    app.selectbox(key="ask_beside").select("entropy").run()
    check(app)


def test_pruning_is_that_of_the_library(monkeypatch):
    app = intervene("pruning", more="The cat sat on the mat.")
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
    extra = [float(number) for number in re.findall(r" (-?[\d.]+) nats", said(app))]
    assert near(found.summary()["extra"]) in extra  # a difference of losses: no digit more


def test_one_token_of_one_text_has_nothing_to_be_measured_by():
    app = intervene(text="a", more="")
    for button in ("measure", "prune"):
        press(app, button)
        assert len(app.error) == 1 and "token" in app.error[0].value
        intact(app)
    app.text_area(key="ask_text").input("a dog")
    press(app, "measure")
    check(app)
