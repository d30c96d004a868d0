"""Lab 4's page: every step of every shipped model, controls, link and bad links."""

import json
import re

import pytest

import mha_viz as mv
from mha_viz.learn.labs.step_by_step.tables import STEPS
from tests.making.families import build
from tests.ui.compare_app import check, figures, matrices, table, written
from tests.ui.lab_app import heavy, lab, link, takes_for_any

KEY = "step-by-step"


RECORDS = "mha_viz.learn.labs.step_by_step.page.record_activations"


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_every_step_can_be_walked_to_by_the_button_and_runs_no_model(monkeypatch, model):
    app = lab(KEY, model=model, text="The cat sat on the mat.", layer="0", head="0")
    calls = heavy(monkeypatch, RECORDS)
    seen = []
    for step in STEPS:
        check(app)
        assert link(app).get("step", "x") == step
        seen.append(next(s.value for s in app.header if "· L0 H0" in s.value))
        if step != "compare":
            app.button(key=f"{KEY}-Next").click().run()
    assert len(set(seen)) == len(STEPS)
    assert app.button(key=f"{KEY}-Next").disabled
    compared = table(app, "What", "Largest difference")
    turned = {"no"} if model == "tiny-llama" else set()  # by its rotary positions
    assert set(compared["From the matrices"]) == {"yes"} | turned
    assert float(compared["Largest difference"].iloc[-1]) < 1e-4
    app.button(key=f"{KEY}-Back").click().run()
    assert link(app)["step"] == "output" and not calls
    app.selectbox(key="ask_layer").set_value(3).run()
    assert calls == [RECORDS]


def test_the_numbers_are_those_of_the_trace():
    text = "The cat sat on the mat."
    app = lab(KEY, model="tiny-gpt2", text=text, step="softmax", layer="2", head="3")
    record = mv.load("tiny-gpt2").trace(text)
    expected = [[f"{w:.2f}" for w in row[:8]] for row in record.pattern[2, 3][:8].tolist()]
    assert written(app, "weights") == expected
    assert written(app, "masked scores")[0][1:] == ["–"] * (len(expected[0]) - 1)


def test_the_mask_is_switched_on_and_the_code_beside_the_numbers_follows():
    text = "The cat sat on the mat."
    app = lab(KEY, text=text, step="softmax", head="3", code="1")
    assert "no mask" in app.code[0].value and link(app).get("mask") is None
    app.segmented_control(key=f"{KEY}-mask").set_value("causal").run()
    check(app)
    assert link(app)["mask"] == "causal"
    assert written(app, "masked scores")[0][1:] == ["–"] * 7
    made = {}
    exec(app.code[0].value, made)
    shown = [[f"{w:.2f}" for w in row[:8]] for row in made["weights"][3][:8].tolist()]
    assert written(app, "weights") == shown
    compared = check(lab(KEY, **link(app) | {"step": "compare"}))
    assert "That is what the mask does" in compared


def test_a_mask_that_is_not_all_is_left_as_it_is(monkeypatch):
    takes_for_any(monkeypatch, build("t5"))
    app = lab(KEY, text="the cat sat", mask="none", part="decoder", pair="a cat")
    assert not app.exception and "own mask" in app.error[0].value
    app.segmented_control(key=f"{KEY}-mask").set_value("own").run()
    check(app)


def test_a_chosen_cell_is_written_out_as_a_sum():
    app = lab(KEY, step="q", row_token="2", column_dim="5", text="a cat", layer="0", head="0")
    text = check(app)
    model = mv.load("tiny-bert")
    value = model.trace("a cat", keep=("pattern", "query")).query[0, 0, 2, 5]
    assert f"= **{value:.4g}**" in text and "the other 250 products" in text
    app.slider(key=f"{KEY}-column_dim").set_value(31).run()
    assert link(app)["column_dim"] == "31"
    assert "Written out: column of the head 24–31 of 32" in check(app)


def test_what_a_link_says_in_vain_is_told():
    app = lab(KEY, step="nonsense", row_token="many", text="one two three")
    text = check(app).replace("\\", "")
    assert "step='nonsense'" in text and "row_token='many'" in text
    app = lab(KEY, step="scores", row_token="900", column_key="900", text="one two three")
    text = check(app)
    assert "There is no row 900 here" in text and "There is no column 900 here" in text


def test_one_token_and_many(tmp_path):
    for text in ("a", "word " * 3000):
        for step in ("scores", "concat", "output"):
            check(lab(KEY, model="tiny-gpt2", text=text, step=step))


def test_tokens_are_shown_as_they_are():
    text = check(lab(KEY, text="<b>$x$ [a](b) :smile: **c**", step="scores", row_token="1"))
    assert "<b>$x" not in text


def test_sentences_without_words_or_with_too_many_say_so_and_can_be_mended():
    app = lab(KEY, cross="1", write="", read="a b c d e f g h i j")
    assert "1 to 8 words" in app.error[0].value
    app.text_input(key=f"{KEY}-write").set_value("a")
    app.text_input(key=f"{KEY}-read").set_value("b c").run()
    check(app)
    assert link(app)["read"] == "b c"


def test_reversing_what_is_read_leaves_the_output():
    before = written(lab(KEY, cross="1"), "output")
    app = lab(KEY, cross="1", turned="1")
    assert written(app, "output") == before
    names = json.dumps([matrix["shown"][1] for matrix in matrices(app)[-3:-1]])
    assert names.index("mat") < names.index("cat")


def test_the_layer_as_a_whole_comes_first_with_the_shape_of_every_tensor():
    app = lab(KEY, "layer", model="tiny-gpt2", text="The cat sat on the mat.", layer="1", head="4")
    check(app)
    shapes = table(app, "tensor", "rows", "columns").set_index("tensor")
    n = shapes.loc["X", "rows"]
    assert tuple(shapes.loc["Q of the head"]) == (n, 32)
    assert tuple(shapes.loc["weights of the head"]) == (n, n)
    assert tuple(shapes.loc["W_O"]) == (256, 256)
    drawn = [mark["text"] for mark in figures(app)[0]["layout"]["annotations"]]
    assert f"{n} × 256" in drawn and f"weights, each {n} × {n}" in drawn and "8 heads" in drawn


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-llama"])
def test_the_usual_code_computes_the_same_as_one_matrix_per_head(model):
    app = lab(KEY, model=model, text="The cat sat on the mat.", code="1")
    text = check(app)
    assert "ten lines" not in text and "masked_fill(mask == 0" in app.code[1].value
    apart = re.search(r"at most \*\*([\d.e-]+)\*\*, the outputs by at most \*\*([\d.e-]+)", text)
    assert all(float(number) < 1e-4 for number in apart.groups())


def test_bugs_fail_visibly_and_are_found():
    app = lab(KEY, text="The cat sat on the mat.", bugs="1")
    assert app.code[0].value.startswith("AttributeError") and "d_k" in app.code[0].value
    for bug, answer in (("attribute", "never defined"), ("view", "transpose"), ("mask", "sign")):
        app.segmented_control(key=f"{KEY}-bug").set_value(bug).run()
        key = f"{KEY}-predict-bug-{bug}"
        (right,) = [option for option in app.radio(key=key).options if answer in option]
        app.radio(key=key).set_value(right)
        app.button(key=f"{key}-button").click().run()
        assert any(info.value.startswith(f"**Yes. {right}") for info in app.info)
        text = check(app)
        if bug != "attribute":
            assert "No error was raised" in text
            assert written(app, "weights, wrong") != written(app, "weights, right")
    assert [row[0] for row in written(app, "weights, wrong")[:2]] == ["0.00", "0.00"]


def test_the_usual_code_says_which_layers_it_cannot_be(monkeypatch):
    takes_for_any(monkeypatch, build("t5"))  # its heads are not d_model / h wide
    app = lab(KEY, text="the cat sat on a mat", code="1", bugs="1")
    assert not app.exception
    said = [error.value.replace("\\", "") for error in app.error]
    assert len(said) == 2 and all("code has heads of d_model / h" in text for text in said)


def test_a_family_that_keeps_its_own_attention_gets_a_sentence(monkeypatch):
    from mha_viz.engine.model import AttentionModel
    from mha_viz.errors import NotKeptError

    def refuse(self, layer, part=None):
        raise NotKeptError("keeps its projections under names that are not known here")

    monkeypatch.setattr(AttentionModel, "attention_weights", refuse)
    app = lab(KEY)
    assert not app.exception
    assert "not known here" in app.error[0].value.replace("\\", "")


@pytest.mark.parametrize(
    ("family", "step", "words"),
    [
        ("llama", "q", "changes its query once more"),
        ("llama", "k", "6 query heads share 3 key and value heads"),
        ("llama", "compare", "That is rounding"),
        ("t5", "softmax", "adds something to its scores"),
        ("t5", "scale", "does not divide by √d_k"),
        ("t5", "compare", "That is rounding"),
    ],
)
def test_other_families_say_what_the_matrices_do_not_give(monkeypatch, family, step, words):

    model = build(family)
    takes_for_any(monkeypatch, model)
    text = check(lab(KEY, text="the cat sat on a mat", step=step, layer="1"))
    assert words in text


@pytest.mark.extended
def test_cross_attention_of_a_loaded_model_is_walked_through_too(monkeypatch):

    model = build("t5")
    takes_for_any(monkeypatch, model)
    app = lab(KEY, text="the cat sat on a mat", pair="a cat ran", part="cross")
    assert "Cross attention: queries come from" in check(app)
    for _ in list(STEPS)[1:]:
        text = check(app.button(key=f"{KEY}-Next").click().run())
    assert "That is rounding" in text
