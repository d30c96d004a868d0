"""Lab 7's page: painting, typing, fitting, links and bad links."""

import threading

import pytest
import streamlit as st

from mha_viz.learn.frame import stored_runs
from mha_viz.learn.labs.any_pattern import numbers as any_pattern
from mha_viz.learn.labs.any_pattern import patterns
from mha_viz.ui.run import heavy
from tests.making.comparing import near
from tests.making.pairwise import pairwise
from tests.ui.compare_app import check, figures, said, table, written
from tests.ui.lab_app import answers, lab, link

KEY = "any-pattern"


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Enough to see what the page does with a fit."""
    whole = any_pattern.fit
    monkeypatch.setattr(
        any_pattern, "fit", lambda *args, **options: whole(*args, **options | {"steps": 100})
    )


def test_a_fit_is_shown_when_asked_for_and_kept():
    app = lab(KEY, "errors", pattern="near", tokens="5", seed="3", rank="1")
    assert "trained at once" in check(app) and len(figures(app)) == 1
    app.button(key="any-pattern-fit").click().run()
    text = check(app)
    expected = any_pattern.fit(patterns.pattern_of(patterns.preset("near", 5)), 3)
    shown = table(app, "KL", "scores off")
    assert shown["KL"].to_numpy() == near(expected.kl.numpy())
    assert (shown["scores off"] >= shown["scores off, at least"] - 1e-3).all()
    assert "The narrowest head" in text and "d_k = 4** is the least" in text
    app.slider(key=f"{KEY}-width-5").set_value(4).run()
    assert "made with d_k = 4" in check(app)
    app.segmented_control(key=f"{KEY}-error").set_value("largest")
    app.number_input(key=f"{KEY}-seed").set_value(4).run()
    assert "trained at once" in check(app)  # not of this seed
    app.number_input(key=f"{KEY}-seed").set_value(3).run()
    assert "The narrowest head" in check(app)
    assert link(app) == {
        "pattern": "near",
        "tokens": "5",
        "seed": "3",
        "width": "4",
        "error": "largest",
        "rank": "1",
    }


def test_the_first_fit_is_there_at_once():
    app = lab(KEY, "errors", "real-errors", **{"real-inputs": "1"})
    text = check(app)
    first, real = (stored_runs.read(run) for run in any_pattern.STORED)
    assert table(app, "KL", "scores off")["KL"].to_numpy() == near(first.kl.numpy())
    name = "tokens of d_model = 4"
    assert table(app, "d_k", name)[name].to_numpy() == near(real.kl.clamp(min=1e-7).numpy())
    assert "within 0.01 nats has **d_k = 2**" in text
    buttons = [app.button(key=f"{KEY}-{name}").label for name in ("fit", "real")]
    assert buttons == ["Run it yourself"] * 2


def test_a_pattern_and_an_output_are_told_apart():
    app = lab(KEY, **{"fixed-pattern": "1", "tokens": "5"})
    assert "different shapes have no difference" in check(app)
    shown = table(app, "‖A − Â‖, 5 × 5", "‖AX − ÂX‖, 5 × 4")
    assert list(shown["‖AX − ÂX‖, 5 × 4"]) == ["0"] and float(shown["‖A − Â‖, 5 × 5"].iloc[0]) == 2


def test_real_tokens_are_fitted_too_and_say_what_they_forbid():
    fold = {"real-inputs": "1"}
    app = lab(KEY, "real-errors", tokens="5", repeat="1", d_model="8", **fold)
    text = check(app)
    target = patterns.pattern_of(patterns.preset("diagonal", 5))
    assert "no head of any width comes closer than **0.2773** nats" in text
    app.button(key=f"{KEY}-real").click().run()
    check(app)
    tokens = patterns.real_tokens(5, 8, repeat=True)
    expected = any_pattern.fit(target, 0, tokens=tokens)
    shown = table(app, "d_k", "tokens of d_model = 8")["tokens of d_model = 8"]
    assert shown.to_numpy() == near(expected.kl.numpy())
    made = written(app, "made, d_k = 5")
    assert made[0] == made[4] and float(made[0][0]) <= 0.5
    assert link(app) == {"tokens": "5", "repeat": "1", "d_model": "8"} | fold


def test_a_stopped_fit_leaves_nothing_behind(monkeypatch):
    ended, do = threading.Event(), heavy.do

    def endless(*args, on_step, **options):
        try:
            while not ended.wait(0.01):
                on_step(20)
        finally:
            ended.set()

    monkeypatch.setattr(any_pattern, "fit", endless)
    # As Streamlit ends a run that is overtaken: where the page hears how far it is.
    monkeypatch.setattr(heavy, "do", lambda work, told: do(work, lambda news: st.stop()))
    app = lab(KEY, seed="1")
    app.button(key="any-pattern-fit").click().run()
    assert not app.exception and app.session_state["any-pattern-fit-results"] == {}
    assert ended.wait(300)
    app.run()
    assert "trained at once" in check(app)


def test_what_is_typed_is_the_pattern_and_stays_in_the_link():
    app = lab(KEY, tokens="4")
    app.text_area(key=f"{KEY}-typed-4").set_value("1000\n0030\n\n0000 9999").run()
    text = check(app)
    assert "Empty rows (2) attend to all keys equally" in text.replace("\\", "")
    assert link(app) == {"tokens": "4", "pattern": "own", "own4": "1000-0030-0000-9999"}
    again = lab(KEY, **link(app))
    assert again.text_area(key=f"{KEY}-typed-4").value == "1000\n0030\n0000\n9999"
    assert written(again, "Painted") == written(app, "Painted")
    assert written(app, "Painted")[1] == ["0.00", "0.00", "1.00", "0.00"]


def test_what_is_no_pattern_is_said_and_the_lab_goes_on():
    app = lab(KEY, tokens="4", rank="1")
    for typed in ("", "12\n34", "10000\n0000\n0000\n0000", "abcd\n" * 4, "<b>"):
        app.text_area(key=f"{KEY}-typed-4").set_value(typed).run()
        assert "This is no pattern" in check(app), typed
    app.text_area(key=f"{KEY}-typed-4").set_value("1111\n" * 4).run()
    assert "This is no pattern" not in check(app)
    assert "d_k = 1** is the least" in said(app)


def test_what_a_link_says_in_vain_is_told():
    bad = dict(pattern="cat", tokens="40", seed="-1", brush="x", width="0", error="nan%")
    app = lab(KEY, **bad)
    app.button(key="any-pattern-fit").click().run()
    text = "\n".join(warning.value for warning in app.warning)
    assert not app.exception and all(name in text for name in bad), text
    check(lab(KEY, pattern="own", own8="1"))
    check(lab(KEY, pattern="own", tokens="4", own4="0" * 500))
    check(lab(KEY, width="12", tokens="4"))


@pairwise(dear=True, tokens=["4", "12"], pattern=["first", "random"])
def test_every_size_comes_whole(tokens, pattern):
    app = lab(KEY, "errors", "rank", "painted", tokens=tokens, pattern=pattern, rank="1")
    app.button(key="any-pattern-fit").click().run()
    check(app)


def test_the_answers():
    folds = {"rank": "1", "real-inputs": "1"}
    found = answers(KEY, "diagonal", "random", "equal", "exit", **folds)
    assert "circle" in found[0] and "rank 512" in found[3]
    assert found[1].startswith("**7.") and found[2].startswith("**1/2.")
