"""Odd links, texts and models on the Intervene page: what is refused can be mended there."""

import pytest

import mha_viz as mv
from tests.ui.compare_app import HOSTILE, check, table
from tests.ui.intervene_app import TEXT, intact, intervene, off, press


@pytest.mark.parametrize("model", ["headless", "deberta", "t5"])
def test_models_whose_heads_cannot_be_switched_say_why(models, model):
    app = intervene(model=models[model], text="the cat sat", off="0.0")
    assert not app.exception and not app.error
    assert len(app.info) == 1
    assert app.text_area(key="ask_text").value == "the cat sat" and off(app) == ((0, 0),)
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    check(app)
    intact(app)
    assert off(app) == ((0, 0),)


def test_heads_that_the_model_does_not_have_are_left_out_in_words():
    app = intervene(off="0.3,9.1,0.3,2.77,0.1")
    assert off(app) == ((0, 1), (0, 3))
    assert "L2 H77, L9 H1" in app.info[0].value
    assert app.query_params["off"] == "0.1,0.3"
    check(app)
    intact(app)


def refused(app, target):
    assert len(app.error) == 1
    intact(app)
    assert app.text_input(key="ask_target").value == target and off(app) == ((0, 3),)
    assert len(app.metric) == 1 and len(table(app, "before", "after"))


def test_link_values_that_are_not_valid_are_named():
    app = intervene(how="scale", off="-1.0", factor="nan", place="x", method="magic")
    said = "".join(warning.value for warning in app.warning).replace("\\", "")
    assert all(f"{name}=" in said for name in ("off", "factor", "place", "method"))
    assert not app.error and len(app.table) == 1
    intact(app)


def test_a_target_can_be_mended_and_what_it_is_compared_with_hides_nothing():
    app = intervene("prediction", off="0.3", target="two words")
    refused(app, "two words")
    for target in ("\x00", HOSTILE):
        app.text_input(key="ask_target").input(target).run()
        refused(app, target)
    app.text_input(key="ask_target").input("play").run()
    check(app)
    app.text_input(key="ask_against").input("hippopotamuses").run()
    assert len(app.error) == 1
    intact(app)


@pytest.mark.parametrize(
    "how", ["patch_z", pytest.param("patch_pattern", marks=pytest.mark.extended)]
)
def test_a_patch_needs_a_text_of_as_many_tokens(how):
    app = intervene(off="0.3", how=how)
    n_tokens = len(mv.load("tiny-gpt2").trace(TEXT).tokens)
    assert f" {n_tokens} " in app.info[0].value
    intact(app)
    app.text_input(key="ask_source").input("too short").run()
    assert not app.info and "tokens" in app.error[0].value
    intact(app)
    assert app.query_params["source"] == "too short" and off(app) == ((0, 3),)
    app.text_input(key="ask_source").input("\x00").run()
    assert len(app.error) == 1
    intact(app)
    app.text_input(key="ask_source").input(TEXT.replace("dog", "cat")).run()
    check(app)
    press(app, "all_on")
    check(app)
