"""Lab 9's page: the stored run, training, the film, one step of descent, curvature."""

import pytest

from mha_viz.core import stored_runs
from mha_viz.learn.labs.how_heads_learn import film as numbers
from mha_viz.learn.labs.how_heads_learn.numbers import CURVATURE, FILM, PLANES
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, table
from tests.ui.lab_app import done_once, lab

pytestmark = pytest.mark.slow

NAME = "how-heads-learn"
FOLDS = dict.fromkeys(("one-step", "decay", "curvature", "landscape"), "1")


@pytest.fixture(scope="module", autouse=True)
def once():
    with done_once("mha_viz.learn.labs.how_heads_learn.film.film"):
        yield


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
