"""Lab 9's page: the stored run, training, the film, one step of descent, curvature."""

import pytest

from mha_viz.core import stored_runs
from mha_viz.learn.labs.how_heads_learn import film as numbers
from mha_viz.learn.labs.how_heads_learn import gradient_descent
from mha_viz.learn.labs.how_heads_learn.numbers import CURVATURE, FILM, PLANES
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, table
from tests.ui.lab_app import done_once, lab, link

pytestmark = pytest.mark.slow

NAME = "how-heads-learn"
FOLDS = dict.fromkeys(("one-step", "decay", "curvature", "landscape"), "1")


@pytest.fixture(scope="module", autouse=True)
def once():
    with done_once("mha_viz.learn.labs.how_heads_learn.film.film"):
        yield


@pytest.fixture(scope="module")
def trained():
    choices = dict(steps="100", heads="2", rate="0.01", **FOLDS)
    app = lab(NAME, "heads-film", "curves", "quantity", "rate-figure", **choices)
    app.button(key=f"{NAME}-train").click().run()
    return app


@pytest.fixture(scope="module")
def film():
    """The library's film under the settings that the page trains with."""
    return numbers.film(2, 100, 0.01, 0)


def test_default_settings_show_the_stored_run_and_others_nothing_until_it_is_trained():
    app = lab(NAME, "curves", "landscape-figure", **FOLDS)
    text = check(app)
    stored, curvature = stored_runs.read(FILM), stored_runs.read(CURVATURE)
    scores = [float(score[1, 0]) for score in stored.scores["induction"]]
    assert list(table(app, "step", "L1 H0")["L1 H0"]) == near(scores)
    assert format_number(curvature.smallest) in text
    for kind in PLANES:
        app.button_group(key=f"{NAME}-plane").set_value(kind).run()
        plane = stored_runs.read(PLANES[kind])
        assert list(table(app, "second direction", "loss")["loss"]) == near(plane.loss.flatten())
    app = lab(NAME, steps="100")
    assert check(app) and not figures(app)


@pytest.mark.extended
def test_trained_film_and_its_bound_are_those_of_the_library(trained, film):
    text = check(trained)
    bound = gradient_descent.bound(film.steps, film.squared)
    assert format_number(bound.factor) in text
    assert list(table(trained, "t", "C/√t")["running mean of ‖∇L‖²"]) == bound.mean
    scores = table(trained, "step", "L1 H1")
    assert scores["L1 H1"].iloc[-1] == near(float(film.scores["induction"][-1][1, 1]))
    assert list(scores["step"]) == film.steps


@pytest.mark.extended
def test_factors_of_the_chain_rule_are_those_of_the_chosen_step_and_head(trained, film):
    trained.slider(key=f"{NAME}-at").set_value(0.25).run()
    step = film.snapshots[round(0.25 * (len(film.snapshots) - 1))]
    assert step not in film.weights  # so it takes a second training
    trained.button(key=f"{NAME}-again").click().run()
    check(trained)
    trained.slider(key=f"{NAME}-at").set_value(0.0)
    trained.slider(key=f"{NAME}-which-1").set_value(1).run()
    chain = gradient_descent.chain_rule(2, film.weights[0], film.ids, numbers.PERIODS[1], 1)
    text = check(trained)
    assert format_number(film.off_rule[0]) in text and link(trained)["which"] == "1"
    for factor in chain.factors:
        assert factor.symbol in text and format_number(factor.value.norm()) in text
