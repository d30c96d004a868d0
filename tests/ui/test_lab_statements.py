"""Lab 10's page: the table, verdicts, controls, odd texts and models."""

import re

import pytest
from scipy.stats import spearmanr

import mha_viz as mv
from mha_viz.learn.labs.statements import numbers as stored
from mha_viz.learn.labs.statements.measured import of_loss, of_outputs, of_pattern, of_weights
from mha_viz.learn.labs.statements.numbers import BY_KEY, STATEMENTS, judge
from mha_viz.ui.state.views import DEFAULT
from tests.making.comparing import near
from tests.ui.compare_app import HOSTILE, TEXT, check, figures, matrices, table
from tests.ui.lab_app import heavy, lab, link

KINDS = ("outputs", "pattern", "weights", "loss")


def verdicts(app) -> dict[str, str]:
    shown = table(app, "Statement", "Layers")
    return dict(zip(shown["Statement"], shown.iloc[:, 0], strict=True))


def test_the_table_says_what_the_library_measures():
    app = lab("statements", "verdicts", text=TEXT, model="tiny-gpt2", layer="2")
    check(app)
    model = mv.load("tiny-gpt2")
    record = model.trace(TEXT)
    sides = (
        of_weights([layer.mT for layer in model.head_weights("W_O")])
        | of_outputs(record.z, record.W_O)
        | of_pattern(record.pattern)
    )
    shown = verdicts(app)
    assert list(shown) == [statement.title for statement in STATEMENTS]
    for key, side in sides.items():
        found = judge(BY_KEY[key], side)
        assert shown[BY_KEY[key].title].endswith(found[2].word)
        held = sum(verdict.word == "holds" for verdict in found)
        rows = table(app, "Statement", "Layers").set_index("Statement")
        assert rows.loc[BY_KEY[key].title, "Layers"].startswith(f"holds in {held} of 4")
        assert rows.loc[BY_KEY[key].title, "Random weights"].startswith("holds in ")


def test_controls_change_the_link_and_the_link_opens_them():
    app = lab("statements", "variance-figure", text=TEXT, variance="1")
    app.selectbox(key="ask_layer").set_value(3).run()
    check(app)
    assert link(app) | {"layer": "3", "variance": "1"} == link(app)
    again = lab("statements", "variance-figure", **link(app))
    assert again.selectbox(key="ask_layer").value == 3
    assert len(figures(again)) == len(figures(app)) == 3  # verdicts, this one, heads removed
    assert {"variance of the sum", "sum of the variances"} <= set(table(again, "Layer"))


@pytest.mark.parametrize("space", ["W_Q", "W_K", "W_V"])
def test_other_weights_of_a_layer_that_is_not_there(space):
    app = lab("statements", text=TEXT, space_of=space, layer="9")
    assert "There is no L9 H0" in check(app)


def test_a_link_that_makes_no_sense():
    app = lab("statements", text=TEXT, space_of="W_X", norm="yes")
    check(app)
    assert len(app.warning) == 2


def test_the_picture_has_a_row_and_a_mark_for_each_statement_and_layer():
    app = lab("statements", text=TEXT, model="tiny-gpt2")
    check(app)
    drawn = figures(app)[0]
    labels = [one["text"] for one in drawn["layout"]["annotations"]]
    assert len(labels) == len(STATEMENTS)
    for statement, label in zip(STATEMENTS, labels, strict=True):
        assert statement.name in label
    record = mv.load("tiny-gpt2").trace(TEXT)
    sides = of_outputs(record.z, record.W_O)["variance"]
    ratio = (sides.right / sides.left).clamp(max=1).tolist()
    right = next(one for one in drawn["data"] if one.get("name") == "right side")
    at = list(BY_KEY).index("variance")
    assert [x for x, y in zip(right["x"], right["y"], strict=True) if at <= y < at + 1] == near(
        ratio
    )


def test_each_statement_is_folded_and_open_it_says_why():
    app = lab("statements", text=TEXT, norm="1", capacity="1", **{"given-query": "1"})
    text = check(app)
    folded = [block for block in app.expander if block.label[0].isdigit()]
    assert [block.label.split(". ", 1)[1] for block in folded] == [s.title for s in STATEMENTS]
    opened = [block.label.split(".")[0] for block in folded if block.proto.expanded]
    assert opened == ["3", "6", "7"]
    assert "The gap," in text and "(holds in 0 of 4; random weights: holds in 0 of 4" in text
    assert "the term that is subtracted is **0**" in text
    assert "a union is no subspace" not in text  # of a closed one


def test_the_predicted_number_is_counted():
    app = lab("statements", text=TEXT)
    app.button(key="statements-predict-held-button").click().run()
    check(app)
    found = re.search(r"Of (\d+) that are measured here, (\d+) hold", app.info[0].value)
    labels = [one["text"] for one in figures(app)[0]["layout"]["annotations"]]
    measured = [label for label in labels if not label.endswith("on request")]
    assert found and int(found[1]) == len(measured)
    assert int(found[2]) == sum(label.endswith(": holds") for label in measured)


def test_what_is_stored_is_there_at_once_and_heads_are_worth_what_it_says():
    app = lab("statements", "verdicts", "importance", text=DEFAULT.text, importance="1", alike="1")
    text = check(app)
    assert TEXT != DEFAULT.text == stored.TEXT
    assert verdicts(app)[BY_KEY["failure"].title] != "on request"
    model = mv.load("tiny-bert")
    norm, rise = (
        mv.head_report(model.trace(DEFAULT.text)).norm_of_mean_output,
        mv.head_importance(model, DEFAULT.text).mean.flatten(),
    )
    shown = table(app, "I = ‖E[head]‖")
    assert list(shown["I = ‖E[head]‖"]) == near(list(norm))
    assert list(shown.iloc[:, -1]) == near(rise.tolist(), abs=1e-4)
    rho = spearmanr(norm, rise).statistic
    assert f"correlation {rho:.3f} (95 % interval".replace("-", "−") in text
    assert [matrix["title"][0] for matrix in matrices(app)] == ["ρ", "R"]


def test_failure_is_measured_on_request_and_shown_in_the_table():
    app = lab("statements", "verdicts", text=TEXT, model="tiny-gpt2")
    title = BY_KEY["failure"].title
    assert verdicts(app)[title] == "on request"
    app.button(key="statements-failures").click().run()
    check(app)
    found, random = next(iter(app.session_state["statements-failures-results"].values()))
    assert random.change.abs().max() < found.change.abs().max()
    assert verdicts(app)[title] == judge(BY_KEY["failure"], of_loss(found, 4)["failure"])[0].word
    assert app.button(key="statements-failures").label == "Switch heads off again"


@pytest.mark.parametrize("text", ["a", "the the the the", HOSTILE, "the cat " * 5_000])
def test_any_text(text):
    app = lab("statements", text=text, model="tiny-bert")
    check(app)


def test_one_token_has_no_variance():
    app = lab("statements", "verdicts", text="a", model="tiny-gpt2", variance="1")
    assert "one token has no variance" in check(app)
    assert verdicts(app)[BY_KEY["variance"].title] == "not defined"


@pytest.mark.parametrize("name", ["one", "deberta", "t5", "gpt2"])
def test_any_model(models, name):
    opened = {"orthogonal": "1", "model": models[name], "alike": "1"}
    app = lab("statements", text="the cat sat", pair="the dog" * (name == "t5"), **opened)
    text = check(app)
    if name == "one":
        assert "has no two heads to compare" in text
    if name == "deberta":
        assert "it is not known where this family keeps its weights" in text
    if name == "t5":
        app.button(key="statements-failures").click().run()
        assert len(app.error) == 1  # says that it cannot be; the rest stands
        assert not app.exception
        app = lab(
            "statements", text="the cat sat", pair="the dog", model=models[name], part="cross"
        )
        check(app)


def test_another_layer_runs_no_model_and_measures_nothing_again(monkeypatch):
    app = lab("statements", text=TEXT)
    measures = [f"mha_viz.learn.labs.statements.measured.of_{kind}" for kind in KINDS]
    calls = heavy(monkeypatch, *measures)
    app.selectbox(key="ask_layer").set_value(2).run()
    check(app)
    assert not calls
    app.text_input(key="ask_text").set_value("the cat sat on the mat").run()
    assert {"mha_viz.engine.model.AttentionModel.trace", *measures[:2]} <= set(calls)
