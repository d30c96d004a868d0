"""Lab 9's page: training, the film, its curves, link and bad links."""

from functools import partial

import pytest

from mha_viz.core.metrics import METRICS
from mha_viz.learn.frame import stored_runs
from mha_viz.learn.labs.how_heads_learn import film as numbers
from mha_viz.learn.labs.how_heads_learn import gradient_descent, loss_landscape
from mha_viz.learn.labs.how_heads_learn.analysis_page import VERDICTS
from mha_viz.learn.labs.how_heads_learn.numbers import CURVATURE, FILM, PLANES
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, table
from tests.ui.lab_app import answers, done_once, lab, link, warns_of

pytestmark = pytest.mark.slow

NAME = "how-heads-learn"
FOLDS = dict.fromkeys(("one-step", "decay", "curvature", "landscape"), "1")


@pytest.fixture(scope="module", autouse=True)
def once():
    with done_once(
        "mha_viz.learn.labs.how_heads_learn.film.film",
        "mha_viz.learn.labs.how_heads_learn.loss_landscape.curvature",
    ):
        yield


@pytest.fixture(scope="module")
def trained():
    asked = dict(steps="200", heads="2", rate="0.01", **FOLDS)
    app = lab(NAME, "heads-film", "curves", "quantity", "rate-figure", **asked)
    app.button(key=f"{NAME}-train").click().run()
    return app


@pytest.fixture(scope="module")
def film():
    """What the page has trained, if it is what the library trains under these settings."""
    return numbers.film(2, 200, 0.01, 0)


def test_the_first_run_is_there_at_once_and_another_is_trained_when_asked():
    app = lab(NAME, "curves", "landscape-figure", **FOLDS)
    text = check(app)
    film, curved = stored_runs.read(FILM), stored_runs.read(CURVATURE)
    assert f"formed at step {film.formed}**" in text
    scores = [float(score[1, 0]) for score in film.scores["induction"]]
    assert list(table(app, "step", "L1 H0")["L1 H0"]) == near(scores)
    assert f"smallest eigenvalue | {format_number(curved.smallest)} |" in text
    for kind in PLANES:
        app.button_group(key=f"{NAME}-plane").set_value(kind).run()
        plane = stored_runs.read(PLANES[kind])
        assert list(table(app, "second direction", "loss")["loss"]) == near(plane.loss.flatten())
    assert app.button(key=f"{NAME}-train").label == "Run it yourself"
    # one definition of the induction score, here and in the glossary
    assert any(METRICS["induction"].formula in latex.value for latex in app.latex)
    app = lab(NAME, steps="200")
    check(app)
    assert not figures(app) and app.button(key=f"{NAME}-train").label == "Train"


def test_every_number_is_that_of_the_library(trained, film):
    text = check(trained)
    assert f"formed at step {film.formed}**" in text
    bound = gradient_descent.bound(film.steps, film.squared)
    assert f"requires, {format_number(bound.factor)}" in text and "This run: Adam" in text
    assert ("bound **holds**" in text) == bound.holds
    assert list(table(trained, "t", "C/√t")["running mean of ‖∇L‖²"]) == bound.mean
    scores = table(trained, "step", "L1 H1")
    assert scores["L1 H1"].iloc[-1] == near(float(film.scores["induction"][-1][1, 1]))
    assert list(scores["step"]) == film.steps
    assert len(table(trained, "head", "key with the largest weight")) == 4 * numbers.N_CTX


def test_the_film_is_scrubbed_and_curves_are_chosen(trained, film):
    trained.slider(key=f"{NAME}-moment").set_value(0.0).run()
    assert "All heads at step 0" in check(trained)
    trained.slider(key=f"{NAME}-moment").set_value(0.5).run()
    middle = film.snapshots[round(0.5 * (len(film.snapshots) - 1))]
    assert f"All heads at step {middle}" in check(trained)
    for aspect in ("entropy", "gradient", "update", "loss"):
        trained.button_group(key=f"{NAME}-aspect").set_value(aspect).run()
        check(trained)
    assert len(table(trained, "step", "loss")) == len(film.steps)
    assert link(trained) == {
        "steps": "200",
        "heads": "2",
        "rate": "0.01",
        "moment": "0.5",
        "aspect": "loss",
        **FOLDS,
    }


def test_a_step_is_taken_apart(trained, film):
    trained.slider(key=f"{NAME}-at").set_value(0.25).run()
    step = film.snapshots[round(0.25 * (len(film.snapshots) - 1))]
    assert step not in film.weights and "training once more" in check(trained)
    trained.button(key=f"{NAME}-again").click().run()
    assert f"weights of step {step} on" in check(trained)
    trained.slider(key=f"{NAME}-at").set_value(0.0).run()
    chain = gradient_descent.chain_rule(2, film.weights[0], film.ids, numbers.PERIODS[1], 0)
    text = check(trained)
    assert "**Adam does something else.**" in text and format_number(film.off_rule[0]) in text
    for factor in chain.factors:
        assert factor.symbol in text and format_number(factor.value.norm()) in text
    trained.slider(key=f"{NAME}-which-1").set_value(1).run()
    assert "W_Q[0, 0] of L1 H1" in check(trained) and link(trained)["which"] == "1"
    trained.slider(key=f"{NAME}-which-1").set_value(0).run()


@pytest.mark.extended
def test_the_landscape_is_measured_behind_its_buttons(trained, film, monkeypatch):
    coarse = partial(loss_landscape.curvature, n_products=7)
    monkeypatch.setattr(loss_landscape, "curvature", coarse)
    trained.button(key=f"{NAME}-curvature").click().run()
    found = loss_landscape.curvature(2, film.weights[200])
    text = check(trained)
    assert f"largest eigenvalue | {format_number(found.largest)} |" in text
    assert f"smallest eigenvalue | {format_number(found.smallest)} |" in text
    assert VERDICTS[found.verdict] in text and format_number(found.gradient) in text
    whole = loss_landscape.plane
    monkeypatch.setattr(loss_landscape, "plane", lambda *args: whole(*args, side=5))
    trained.session_state[f"{NAME}-landscape-figure-table"] = True
    trained.button(key=f"{NAME}-landscape").click().run()
    check(trained)
    shown = table(trained, "first direction", "second direction", "loss")
    plane = loss_landscape.plane_of_run((2, 200, 0.01, 0, "adam"))
    assert list(shown["loss"]) == pytest.approx(plane.loss.flatten().tolist())
    assert list(shown["first direction"].iloc[: len(plane.x)]) == pytest.approx(plane.x.tolist())


@pytest.mark.extended
def test_plain_sgd_keeps_to_its_rule_and_a_head_that_does_not_form_is_told():
    asked = {"optimizer": "sgd", "sgd-rate": "0.3", "steps": "100", "heads": "1"}
    app = lab(NAME, **asked, **FOLDS)
    app.button(key=f"{NAME}-train").click().run()
    film = numbers.film(1, 100, 0.3, 0, optimizer="sgd")
    before, gradient, after = film.entry[0][-1, 0].double().tolist()
    text = check(app)
    assert f"{before:.9f} − 0.3 × {gradient:.9f} = " in text and f"**{after:.9f}**" in text
    assert "that is rounding in float32" in text and "This run: plain SGD" in text
    assert film.formed is None and "No induction head here" in text


def test_what_a_link_says_in_vain_is_told():
    odd = dict(steps="7", heads="3", rate="1e9", seed="<b>", moment="2", aspect="x", decay="-1")
    warns_of(NAME, "one-step", "landscape", at="-1", plane="sideways", **odd)


def test_answers():
    found = answers(NAME, "sudden", "exit")
    starts = ("**In the second", "**Hardly at all")
    assert [text.startswith(starts) for text in found] == [True] * 2


def test_the_answer_about_the_saddle(trained):
    trained.button(key=f"{NAME}-predict-saddle-button").click().run()
    check(trained)
    assert any(info.value.startswith("**No, in some direction") for info in trained.info)
