"""Pages of labs 4, 10 and 11: steps, verdicts, the game; controls and odd texts."""

import re

import pytest

import mha_viz as mv
from mha_viz.core.amounts import format_number
from mha_viz.learn.labs.step_by_step.tables import STEPS
from mha_viz.reports.textbook import BY_KEY, STATEMENTS, judge
from mha_viz.reports.textbook_sides import of_outputs, of_pattern, of_weights
from tests.making.comparing import near
from tests.ui.compare_app import TEXT, check, figures, table, written
from tests.ui.lab_app import count_heavy_calls, lab, link


def verdicts(app) -> dict[str, str]:
    shown = table(app, "Statement", "Layers")
    return dict(zip(shown["Statement"], shown.iloc[:, 0], strict=True))


def test_table_and_figure_have_the_verdicts_and_sides_of_the_library():
    app = lab("statements", "verdicts", text=TEXT, model="tiny-gpt2", layer="2")
    check(app)
    model = mv.load("tiny-gpt2")
    record = model.trace(TEXT)
    outputs = of_outputs(record.z, record.W_O)
    weights = of_weights([layer.mT for layer in model.head_weights("W_O")])
    shown = verdicts(app)
    assert list(shown) == [statement.title for statement in STATEMENTS]
    rows = table(app, "Statement", "Layers").set_index("Statement")
    for key, side in (weights | outputs | of_pattern(record.pattern)).items():
        judged = judge(BY_KEY[key], side)
        assert shown[BY_KEY[key].title].endswith(judged[2].word)
        n_held = sum(verdict.word == "holds" for verdict in judged)
        assert f" {n_held} of 4" in rows.loc[BY_KEY[key].title, "Layers"]
    drawn = figures(app)[0]
    assert len(drawn["layout"]["annotations"]) == len(STATEMENTS)
    right = next(trace for trace in drawn["data"] if trace.get("name") == "right side")
    row = list(BY_KEY).index("variance")
    ratios = (outputs["variance"].right_side / outputs["variance"].left_side).clamp(max=1).tolist()
    points = zip(right["x"], right["y"], strict=True)
    assert [x for x, y in points if row <= y < row + 1] == near(ratios)


GAME = "find-the-head-"


def choose(app, *heads):
    for slot, head in enumerate(heads):
        app.selectbox(key=f"{GAME}head-{slot}").set_value(head)
    app.run()


def press(app, name):
    app.button(key=GAME + name).click().run()
    return "\n".join([check(app), *(message.value for message in app.success)])


def best(name, metric):
    scores = mv.head_report(mv.load(name).trace(TEXT, None, keep=("pattern", "z", "value")))
    row = scores.loc[scores[metric].idxmax()]
    return int(row.layer), int(row["head"])


def test_game_of_three_tasks_sums_points_and_hints():
    app = lab("find-the-head", text=TEXT, model="tiny-gpt2", tasks="previous,self,twins")
    check(app)
    assert app.button(key=f"{GAME}nobody")  # a task of a label, which no head may have
    choose(app, best("tiny-gpt2", "previous_token"))
    assert "100 points" in press(app, "answer")
    press(app, "next")
    for number in (1, 2):
        press(app, "hint")
        assert len(app.info) == number
    choose(app, best("tiny-gpt2", "self_token"))
    text = press(app, "answer")
    assert "80 points" in text or "30 points" in text  # each hint costs 10
    press(app, "next")
    assert not any(button.key == f"{GAME}nobody" for button in app.button)
    choose(app, (0, 0), (0, 0))
    assert app.button(key=f"{GAME}answer").disabled  # a pair needs two heads
    choose(app, (0, 0), (1, 1))
    text = press(app, "answer")
    shown = table(app, "Your answer", "Points")
    assert f"{shown['Points'].sum()} of 300 points" in text
    assert list(shown["Hints"]) == [0, 2, 0]
    press(app, "restart")
    assert not any("Your answer" in shown.value for shown in app.dataframe)


KEY = "step-by-step"
SENTENCE = "The cat sat on the mat."
RECORDS = "mha_viz.learn.labs.step_by_step.page.record_activations"


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_button_walks_through_every_step_and_runs_no_model(monkeypatch, model):
    app = lab(KEY, model=model, text=SENTENCE, layer="0", head="0")
    calls = count_heavy_calls(monkeypatch, RECORDS)
    titles = set()
    for step in STEPS:
        check(app)
        assert link(app).get("step", "x") == step
        titles |= {header.value for header in app.header if "L0 H0" in header.value}
        if step != "compare":
            app.button(key=f"{KEY}-Next").click().run()
    assert len(titles) == len(STEPS)
    assert app.button(key=f"{KEY}-Next").disabled
    compared = table(app, "What", "Largest difference")
    rotated = {"no"} if model == "tiny-llama" else set()  # by its rotary positions
    assert set(compared["From the matrices"]) == {"yes"} | rotated
    assert float(compared["Largest difference"].iloc[-1].replace("−", "-")) < 1e-4
    app.button(key=f"{KEY}-Back").click().run()
    assert link(app)["step"] == "output" and not calls
    app.selectbox(key="ask_layer").set_value(3).run()
    assert calls == [RECORDS]


def test_mask_that_is_switched_on_changes_numbers_and_code():
    app = lab(KEY, text=SENTENCE, step="softmax", head="3", code="1")
    assert "mask" not in link(app)
    app.segmented_control(key=f"{KEY}-mask").set_value("causal").run()
    check(app)
    assert link(app)["mask"] == "causal"
    assert written(app, "masked scores")[0][1:] == ["–"] * 7
    made = {}
    exec(app.code[0].value, made)
    expected = [[f"{weight:.2f}" for weight in row[:8]] for row in made["weights"][3][:8].tolist()]
    assert written(app, "weights") == expected
    cut = next(line.value for line in app.caption if line.value.count(" of ") == 2)
    assert list(map(int, re.findall(r"\d+", cut))) == 2 * [0, 7, len(made["weights"][3])]
    check(lab(KEY, **link(app) | {"step": "compare"}))


def test_chosen_cell_is_written_out_as_a_sum():
    app = lab(KEY, step="q", row_token="2", column_dim="5", text="a cat", layer="0", head="0")
    text = check(app)
    query = mv.load("tiny-bert").trace("a cat", keep=("pattern", "query")).query
    assert f"= **{format_number(query[0, 0, 2, 5])}**" in text
    app.slider(key=f"{KEY}-column_dim-31").set_value(31).run()
    check(app)
    assert link(app)["column_dim"] == "31"


def test_tokens_are_shown_as_they_are():
    text = check(lab(KEY, text="<b>$x$ [a](b) :smile: **c**", step="scores", row_token="1"))
    assert "<b>$x" not in text
