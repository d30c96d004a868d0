"""Lab 4's page: every step of every kind of model, controls, and the code beside the numbers."""

import pytest

import mha_viz as mv
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import NotKeptError
from mha_viz.learn.labs.step_by_step.tables import STEPS
from tests.making.families import build
from tests.ui.compare_app import check, figures, table, written
from tests.ui.lab_app import count_heavy_calls, lab, link, run_every_model_as

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
    assert float(compared["Largest difference"].iloc[-1]) < 1e-4
    app.button(key=f"{KEY}-Back").click().run()
    assert link(app)["step"] == "output" and not calls
    app.selectbox(key="ask_layer").set_value(3).run()
    assert calls == [RECORDS]


def test_softmax_step_shows_the_weights_of_the_trace():
    app = lab(KEY, model="tiny-gpt2", text=TEXT, step="softmax", layer="2", head="3")
    pattern = mv.load("tiny-gpt2").trace(TEXT).pattern[2, 3][:8, :8].tolist()
    assert written(app, "weights") == [[f"{weight:.2f}" for weight in row] for row in pattern]
    assert written(app, "masked scores")[0][1:] == ["–"] * (len(pattern[0]) - 1)


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
    check(lab(KEY, **link(app) | {"step": "compare"}))


def test_mask_of_a_model_that_adds_more_to_its_scores_is_not_switched(monkeypatch):
    run_every_model_as(monkeypatch, build("t5"))
    app = lab(KEY, text="the cat sat", mask="none", part="decoder", pair="a cat")
    assert not app.exception and len(app.error) == 1
    app.segmented_control(key=f"{KEY}-mask").set_value("own").run()
    check(app)


def test_chosen_cell_is_written_out_as_a_sum():
    app = lab(KEY, step="q", row_token="2", column_dim="5", text="a cat", layer="0", head="0")
    text = check(app)
    query = mv.load("tiny-bert").trace("a cat", keep=("pattern", "query")).query
    assert f"= **{query[0, 0, 2, 5]:.4g}**" in text
    app.slider(key=f"{KEY}-column_dim").set_value(31).run()
    check(app)
    assert link(app)["column_dim"] == "31"


@pytest.mark.parametrize(
    ("text", "step"), [("a", "concat"), ("word " * 3000, "scores")], ids=["one", "many"]
)
def test_any_length_of_text_is_whole(text, step):
    check(lab(KEY, model="tiny-gpt2", text=text, step=step, row_token="900", column_key="900"))


def test_markup_in_tokens_is_escaped():
    text = check(lab(KEY, text="<b>$x$ [a](b) :smile: **c**", step="scores", row_token="1"))
    assert "<b>$x" not in text


def test_layer_as_a_whole_has_the_shape_of_every_tensor():
    app = lab(KEY, "layer", model="tiny-gpt2", text=TEXT, layer="1", head="4")
    check(app)
    shapes = table(app, "tensor", "rows", "columns").set_index("tensor")
    n = shapes.loc["X", "rows"]
    assert tuple(shapes.loc["Q of the head"]) == (n, 32)
    assert tuple(shapes.loc["weights of the head"]) == (n, n)
    assert tuple(shapes.loc["W_O"]) == (256, 256)
    drawn = [mark["text"] for mark in figures(app)[0]["layout"]["annotations"]]
    assert any(f"{n} × 256" in text for text in drawn)


def test_cross_attention_of_no_or_too_many_words_is_refused_and_can_be_mended():
    app = lab(KEY, cross="1", write="", read="a b c d e f g h i j")
    assert len(app.error) == 1 and not app.exception
    app.text_input(key=f"{KEY}-write").set_value("a")
    app.text_input(key=f"{KEY}-read").set_value("b c").run()
    check(app)
    assert link(app)["read"] == "b c"


def test_bugs_change_the_weights_and_one_raises_python_s_own_error():
    app = lab(KEY, text=TEXT, bugs="1")
    assert app.code[0].value.startswith("AttributeError") and "d_k" in app.code[0].value
    for bug in ("view", "mask"):
        app.segmented_control(key=f"{KEY}-bug").set_value(bug).run()
        app.button(key=f"{KEY}-predict-bug-{bug}-button").click().run()
        check(app)
        assert len(app.info) == 1
        assert written(app, "weights, wrong") != written(app, "weights, right")
    assert [row[0] for row in written(app, "weights, wrong")[:2]] == ["0.00", "0.00"]


def test_code_of_layers_with_another_width_is_refused(monkeypatch):
    run_every_model_as(monkeypatch, build("t5"))  # its heads are not d_model / h wide
    app = lab(KEY, text="the cat sat on a mat", code="1", bugs="1")
    assert not app.exception and len(app.error) == 2


def test_family_that_keeps_its_own_attention_is_refused(monkeypatch):
    def refuse(self, layer, part=None):
        raise NotKeptError("keeps its projections under other names")

    monkeypatch.setattr(AttentionModel, "attention_weights", refuse)
    app = lab(KEY)
    assert not app.exception and len(app.error) == 1


@pytest.mark.parametrize(("family", "part"), [("llama", None), ("t5", "encoder"), ("t5", "cross")])
def test_other_families_are_whole_in_every_step(monkeypatch, family, part):
    run_every_model_as(monkeypatch, build(family))
    choices = {"part": part, "pair": "a cat ran"} if part else {}
    app = lab(KEY, text="the cat sat on a mat", layer="1", **choices)
    for _ in list(STEPS)[1:]:
        check(app)
        app.button(key=f"{KEY}-Next").click().run()
    check(app)
    assert float(table(app, "What", "Largest difference")["Largest difference"].iloc[-1]) < 1e-4
