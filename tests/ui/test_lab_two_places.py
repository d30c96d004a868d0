"""Lab 3's page: training, its results for its settings, link and bad links."""

import pytest

from mha_viz.learn.frame import stored_runs
from mha_viz.learn.labs.two_places import numbers
from mha_viz.learn.labs.two_places.page import NAMES
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, matrices, table
from tests.ui.lab_app import answers, done_once, lab, link, warns_of

NAME = "two-places"


def titles(app):
    return [matrix["title"] for matrix in matrices(app)]


@pytest.fixture(scope="module", autouse=True)
def once():
    with done_once("mha_viz.learn.labs.two_places.numbers.learn"):
        yield


@pytest.fixture(scope="module")
def trained():
    settings = dict(steps="100", width="8", seed="1")
    app = lab(NAME, "few", "many", "rank", rank="1", texts="1", **settings)
    return app.button(key=f"{NAME}-train").click().run()


def test_the_default_training_is_stored_and_nothing_is_waited_for():
    app = lab(NAME, "many")
    runs = stored_runs.read(numbers.STORED[0])
    assert app.button(key=f"{NAME}-train").label == "Run it yourself" and link(app) == {}
    assert f"**both {runs[1].both[:, -1].mean():.0%}**" in check(app)
    first = table(app, "heads", "run 1").set_index("heads")["run 1"]
    assert [first[n] for n in numbers.HEADS] == near([float(runs[n].both[0, -1]) for n in runs])


def test_before_training_there_is_nothing_to_see_but_a_button():
    app = lab(NAME, seed="3")
    assert "press Train below" in check(app)
    assert not figures(app) and link(app) == {"seed": "3"}


def test_every_number_is_that_of_the_library(trained):
    text = check(trained)
    runs = numbers.learn((1, 2, 4, 8), 100, 1, 3, 8, 8)
    curve = table(trained, "step", "2 heads, mean")
    assert curve["2 heads, mean"].iloc[-1] == near(float(runs[2].both[:, -1].mean()))
    assert f"**both {runs[1].both[:, -1].mean():.0%}**" in text
    ranks = table(trained, "heads", "scores Q Kᵀ")
    assert list(ranks["heads"]) == [1, 2, 4, 8]  # 16 do not divide a width of 8
    assert (ranks["scores Q Kᵀ"] <= ranks["d_head"]).all()
    assert table(trained, "heads", "run 1")["parameters"].nunique() == 1


def test_other_settings_have_no_results_and_these_come_back(trained):
    shown = len(figures(trained))
    trained.select_slider(key=f"{NAME}-seed").set_value(2).run()
    check(trained)
    assert not figures(trained)
    trained.select_slider(key=f"{NAME}-seed").set_value(1).run()
    assert len(figures(trained)) == shown


def test_an_example_is_chosen(trained):
    trained.select_slider(key=f"{NAME}-example").set_value(3).run()
    one = numbers.learn((1, 2, 4, 8), 100, 1, 3, 8, 8)[1].examples
    asked = ", then ".join(NAMES[name] for name in one.queried[2].tolist())
    assert asked in check(trained)
    chosen = {"steps": "100", "width": "8", "seed": "1", "example": "3"}
    assert link(trained) == chosen | {"rank": "1", "texts": "1"}


def test_what_a_link_says_in_vain_is_told():
    warns_of(NAME, steps="7", values="3", width="<b>", seed="1e9")
    warns_of(NAME, "texts", example="0")


def test_answers():
    found = answers(NAME, "one", "exit")
    starts = ("**About 1 time in 8", "**2 heads")
    assert [text.startswith(starts) for text in found] == [True] * 2
