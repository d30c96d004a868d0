"""Lab 13's page: its numbers are those of the lab, for every choice and odd links."""

import pytest

import mha_viz as mv
from mha_viz.core.stored_runs import read
from mha_viz.learn.labs.induction_circuit import numbers
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, matrices, table
from tests.ui.lab_app import lab, link, warns_of

pytestmark = pytest.mark.slow

NAME = "induction-circuit"


@pytest.fixture(scope="module")
def found():
    return numbers.find_circuit(mv.load(numbers.MODEL), 6, 2)


def test_what_is_said_and_drawn_are_the_labs_numbers(found):
    opened = dict.fromkeys(("patterns", "score", "composition", "cut", "senders"), "1")
    app = lab(
        NAME, "shares", "senders-figure", "edges", "test", words="6", seed="2", word="1", **opened
    )
    text = check(app)
    assert f"**{found.second_loss:.2g}** in the second" in text
    model = mv.load(numbers.MODEL)
    score = numbers.score_difference(model, found, found.readers[0], 1)
    assert f"a score higher by **{score.value:.3g}**" in text
    shown = table(app, "component", "share")
    assert shown["component"].iloc[0] == numbers.by_key_component(score).component[0]
    cuts = table(app, "Path cut")
    assert list(cuts["Loss, nats"]) == near(list(numbers.cuts(found).loss))
    by_sender = table(app, "head", "more")
    assert by_sender.more.idxmax() == found.writers[0][1]
    assert list(by_sender.loss) == near(list(numbers.cut_by_sender(found).loss))
    assert any("K-composition" in matrix["title"] for matrix in matrices(app))
    task = read(numbers.STORED[0])
    assert list(table(app, "edges", "faithfulness").faithfulness) == near(
        list(task.curve.faithfulness)
    )
    assert list(table(app, "heads", "share").share) == near(list(task.tested.table().share))
    assert f"{task.size} of {task.n_edges:,}" in text and task.accuracy in text
    assert len(figures(app)) == 8
    assert link(app) == {"words": "6", "seed": "2", "word": "1", **opened}


def test_what_is_open_fits_and_the_rest_is_folded():
    app = lab(NAME)
    check(app)
    assert len(figures(app)) == 4 and not app.dataframe
    assert app.button(key=f"{NAME}-explain").label == "Run it yourself"


def test_a_word_beyond_a_shorter_text_is_its_last():
    app = lab(NAME, words="6", seed="2", word="9", score="1")
    check(app)
    assert app.slider(key=f"{NAME}-word-4").value == 4


def test_links_that_make_no_sense():
    warns_of(NAME, words="7", seed="99", cut="x")
