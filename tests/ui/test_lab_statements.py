"""Lab 10's page: the table, verdicts, controls, odd texts and models."""

import pytest

import mha_viz as mv
from mha_viz.learn.labs.statements.measured import of_loss, of_outputs, of_pattern, of_weights
from mha_viz.learn.labs.statements.numbers import BY_KEY, STATEMENTS, judge
from tests.ui.compare_app import HOSTILE, TEXT, check, figures, table
from tests.ui.lab_app import heavy, lab, link

KINDS = ("outputs", "pattern", "weights", "loss")


def verdicts(app) -> dict[str, str]:
    shown = table(app, "Statement", "Layers")
    return dict(zip(shown["Statement"], shown.iloc[:, 0], strict=True))


def test_the_table_says_what_the_library_measures():
    app = lab("statements", text=TEXT, model="tiny-gpt2", layer="2")
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
    app = lab("statements", text=TEXT)
    app.selectbox(key="ask_layer").set_value(3)
    app.toggle(key="statements-picture-variance").set_value(True).run()
    check(app)
    assert link(app) | {"layer": "3", "picture-variance": "1"} == link(app)
    again = lab("statements", "variance-figure", **link(app))
    assert again.selectbox(key="ask_layer").value == 3
    assert len(figures(again)) == len(figures(app)) == 1
    assert "In L3" in table(again, "Statement", "Layers")
    assert {"variance of the sum", "sum of the variances"} <= set(table(again, "Layer"))


@pytest.mark.parametrize("space", ["W_Q", "W_K", "W_V"])
def test_other_weights_of_a_layer_that_is_not_there(space):
    app = lab("statements", text=TEXT, space_of=space, layer="9")
    assert "There is no L9 H0" in check(app)


def test_a_link_that_makes_no_sense():
    app = lab("statements", text=TEXT, space_of="W_X", **{"picture-norm": "yes"})
    check(app)
    assert len(app.warning) == 2


def test_the_table_leads_and_what_each_statement_says_is_folded_below():
    app = lab("statements", text=TEXT, **{"picture-norm": "1"})
    check(app)
    folded = [block for block in app.expander if block.label[0].isdigit()]
    assert [block.label.split(". ", 1)[1] for block in folded] == [s.title for s in STATEMENTS]
    opened = [block.label for block in folded if block.proto.expanded]
    assert opened == [f"3. {BY_KEY['norm'].title}"]  # the one whose picture the link asks for
    said = {s.key: block.markdown[0].value for s, block in zip(STATEMENTS, folded, strict=True)}
    assert "a union is no subspace" in said["direct-sum"]
    sums = " ".join(m.value for m in folded[list(BY_KEY).index("capacity")].markdown)
    assert "The gap," in sums and "holds in 0 of 4 layers" in sums
    assert "random weights: holds in 0 of 4, 4 too little to tell" in sums
    textbook = folded[list(BY_KEY).index("given-query")]
    assert any("the term that is subtracted is **0**" in m.value for m in textbook.markdown)


def test_answers_are_measured_ones():
    app = lab("statements", text=TEXT)
    asked = [button.click() for button in app.button if "predict" in button.key]
    assert len(asked) == 2
    check(app.run())
    assert "Random subspaces of this size share" in app.info[0].value
    assert "times as much" in app.info[1].value


def test_failure_is_measured_on_request_and_shown_in_the_table():
    app = lab("statements", text=TEXT, model="tiny-gpt2")
    title = BY_KEY["failure"].title
    assert verdicts(app)[title] == "on request"
    app.button(key="statements-measure").click().run()
    check(app)
    found, random = next(iter(app.session_state["measured_statements"].values()))
    assert random.change.abs().max() < found.change.abs().max()
    assert verdicts(app)[title].endswith(
        judge(BY_KEY["failure"], of_loss(found, 4)["failure"])[0].word
    )
    assert app.button(key="statements-measure").disabled


@pytest.mark.parametrize("text", ["a", "the the the the", HOSTILE, "the cat " * 5_000])
def test_any_text(text):
    app = lab("statements", text=text, model="tiny-bert")
    check(app)


def test_one_token_has_no_variance():
    app = lab("statements", text="a", model="tiny-gpt2")
    assert "one token has no variance" in check(app)
    assert verdicts(app)[BY_KEY["variance"].title] == "– not defined"


@pytest.mark.parametrize("name", ["one", "deberta", "t5", "gpt2"])
def test_any_model(models, name):
    app = lab("statements", text="the cat sat", pair="the dog" * (name == "t5"), model=models[name])
    text = check(app)
    if name == "one":
        assert "has no two heads to compare" in text
    if name == "deberta":
        assert "it is not known where this family keeps its weights" in text
    if name == "t5":
        app.button(key="statements-measure").click().run()
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
