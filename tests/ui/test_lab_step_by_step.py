"""Lab 4's page: every step of every kind of model, controls, and the code beside the numbers."""

import re

import pytest

import mha_viz as mv
from mha_viz.core.amounts import format_number
from mha_viz.learn.labs.step_by_step.tables import STEPS
from tests.ui.compare_app import check, table, written
from tests.ui.lab_app import count_heavy_calls, lab, link

KEY = "step-by-step"
TEXT = "The cat sat on the mat."
RECORDS = "mha_viz.learn.labs.step_by_step.page.record_activations"


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_button_walks_through_every_step_and_runs_no_model(monkeypatch, model):
    app = lab(KEY, model=model, text=TEXT, layer="0", head="0")
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
    app = lab(KEY, text=TEXT, step="softmax", head="3", code="1")
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
