"""Lab 2's page: controls, link, training, bad links."""

import pytest
import torch

from mha_viz.learn.frame import stored_runs
from mha_viz.learn.labs.own_reflection import numbers
from tests.ui.compare_app import check, matrices, table, written
from tests.ui.lab_app import answers, lab, link, warns_of

NAME = "own-reflection"


def cells(app, title):
    return [[float(text) for text in row] for row in written(app, title)]


def test_every_number_is_that_of_the_library():
    app = lab(NAME, "arrows", "random", tokens="6", random="1")
    text = check(app)
    expected = numbers.reflection(torch.tensor(numbers.START))
    assert cells(app, "weights") == [
        pytest.approx(r, abs=0.0051) for r in expected.pattern.tolist()
    ]
    assert "does not win in 2 of 6 rows" in text and "**sun** looks at **cat**" in text
    assert len(table(app, "length", "score from dog")) == 6
    assert table(app, "width d of the tokens", "equal lengths")["equal lengths"].sum() == 0


def test_half_the_sum_of_the_diagonal_is_true_of_scores_and_false_of_distances():
    app = lab(NAME, tokens="3", x3="1,2;3,-1;1,2", **{"half-true": "1"})
    text = check(app)
    assert "only the shorter can prefer the other" in text
    gaps = cells(app, "(x·x + y·y)/2")
    assert gaps == [[0, 6.5, 0], [6.5, 0, 6.5], [0, 6.5, 0]]
    apart = [[0, 3.61, 0], [3.61, 0, 3.61], [0, 3.61, 0]]  # the root of 13
    assert cells(app, "distance d(x, y)") == apart
    assert "Of the 3 pairs" in text and "scores of **2**" in text and "distances of **0**" in text


def test_equal_lengths_bring_the_diagonal_back():
    app = lab(NAME, tokens="6")
    app.toggle(key=f"{NAME}-equal").set_value(True).run()
    assert "All 6 tokens look at themselves most" in check(app)
    assert link(app) == {"tokens": "6", "equal": "1"}


def test_tokens_of_a_link_are_used_and_zeros_are_no_trouble():
    app = lab(NAME, tokens="3", x3="0,0;1,0;0,0")
    check(app)
    assert cells(app, "weights")[0] == [0.33] * 3
    assert "All 3 tokens" in check(app)
    app.toggle(key=f"{NAME}-equal").set_value(True).run()
    assert not app.warning
    check(app)
    app.toggle(key=f"{NAME}-equal").set_value(False).run()
    check(app)


def test_training_shows_its_result_and_keeps_it_for_its_settings():
    app = lab(NAME, "learning", steps="50", curve="1")
    assert not any("after" in matrix["title"] for matrix in matrices(app))
    app.button(key=f"{NAME}-train").click().run()
    text = check(app)
    assert "left neighbour" in text and cells(app, "after")[3][2] > 0.5
    steps = table(app, "gradient steps", "weight of the left neighbour").iloc[-1]
    assert steps["gradient steps"] == 50 and steps["weight of the left neighbour"] > 0.5
    app.toggle(key=f"{NAME}-positions").set_value(False).run()
    assert not any("after" in matrix["title"] for matrix in matrices(app))
    app.toggle(key=f"{NAME}-positions").set_value(True).run()
    assert cells(app, "after")[3][2] > 0.5
    assert link(app) == {"steps": "50", "curve": "1"}


def test_the_default_training_is_stored_and_nothing_is_waited_for():
    app = lab(NAME)
    stored = stored_runs.read(numbers.STORED[0])
    assert cells(app, "after") == [pytest.approx(r, abs=0.0051) for r in stored.after.tolist()]
    assert app.button(key=f"{NAME}-train").label == "Run it yourself" and link(app) == {}


def test_a_mask_makes_both_outputs_the_same():
    app = lab(NAME, pointwise="1", masked="1", places="6")
    assert "two outputs is **0**" in check(app)
    assert cells(app, "A X W_V") == cells(app, "conv1d")
    warm = lab(NAME, pointwise="1", temperature="10")
    assert cells(warm, "A X W_V") != cells(warm, "conv1d")


def test_controls_further_down_survive_a_choice_further_up():
    app = lab(NAME, temperature="3", steps="100", seed="4")
    app.select_slider(key=f"{NAME}-tokens").set_value(5).run()
    check(app)
    assert link(app) == {"temperature": "3", "steps": "100", "seed": "4", "tokens": "5"}


def test_what_a_link_says_in_vain_is_told():
    bad = dict(tokens="99", token="<b>", steps="-1", seed="x", temperature="hot", x4="1,2")
    warns_of(NAME, "pointwise", **bad)


def test_answers():
    found = answers(NAME, "mirror", "mixing", "exit", pointwise="1")
    starts = ("**No: another", "**Nothing", "**No, at most")
    assert [text.startswith(starts) for text in found] == [True] * 3
