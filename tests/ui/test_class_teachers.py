"""Teachers of a class: the lesson that they lead, its votes, sheets and solutions."""

import math
from pathlib import Path

from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.learn.frame import classroom
from mha_viz.learn.frame.lesson_plan import STOPS, Stop, sheet
from mha_viz.reports.report import KEEP, report
from mha_viz.ui.state import class_answers
from mha_viz.ui.state.class_answers import classes
from tests.ui.class_app import QUESTION, captions, kept, pupil, said, teach


def test_projector_shows_how_many_have_answered_and_the_bars_with_the_answer(cookies):
    """The teacher's screen is what the class looks at."""
    page = AppTest.from_function(teach, default_timeout=300).run()
    page.button(key="class-open").click().run()
    code, own = page.code[0].value.rpartition("class=")[2], kept(page)
    pupil(code).radio[0].set_value("two").run()
    cookies |= own
    teacher = pupil()
    assert "1 answer" in said(teacher) and not teacher.get("progress")
    teacher.button[0].click().run()
    assert [bar.proto.text for bar in teacher.get("progress")] == ["one: 0", "two: 1"]
    assert classes().is_uncovered(code, QUESTION) and "Weights" in said(teacher)


def test_a_server_for_a_class_keeps_the_one_of_its_teacher(operated, cookies):
    operated(classroom=1)
    class_answers.first_class.cache_clear()
    code, leader = class_answers.first_class()
    page = AppTest.from_function(teach, default_timeout=300).run()
    assert not page.exception and not page.button
    page.query_params[classroom.LEAD] = leader[:-1]
    assert not page.run().button
    page = AppTest.from_function(teach, default_timeout=300)
    page.query_params[classroom.LEAD] = leader
    assert page.run().code[0].value.endswith(f"/class?class={code}")
    assert kept(page) == {classroom.COOKIE: leader}
    page.button(key="class-end").click().run()
    page.button(key="class-open").click().run()
    assert page.code[0].value[-5:] in classes()


def test_a_teacher_who_loads_the_page_again_still_leads_the_class(cookies):
    page = AppTest.from_function(teach, default_timeout=300).run()
    page.button(key="class-open").click().run()
    shown, cookie = page.code[0].value, kept(page)
    assert "you lead it" in captions(page)
    cookies |= cookie
    again = AppTest.from_function(teach, default_timeout=300).run()
    assert again.code[0].value == shown
    cookies.clear()  # another browser, at the address that is handed out
    other = pupil(shown.rpartition("class=")[2])
    assert "you lead it" not in captions(other)
    again.button(key="class-end").click().run()
    assert not again.code


def _case(page: str) -> tuple[Stop, mv.AttentionModel, mv.AttentionRecord]:
    """A stop of the lesson, and what its link opens."""
    (stop,) = (stop for stop in STOPS if stop.page == page)
    model = mv.load(stop.params["model"])
    return stop, model, model.trace(stop.params["text"])


def test_the_stop_of_switches_is_decided_by_the_model():
    stop, model, record = _case("heads")
    assert record.labels[9] == "box"
    weight = {head: record.pattern[head][-1] for head in ((1, 2), (1, 3), (0, 7))}
    assert f"L1 H2 gives {weight[1, 2][9]:.0%}".replace("%", " %") in stop.vote_question.question
    assert int(weight[1, 3].argmax()) == 9 and float(weight[0, 7][-2]) > 0.995
    found = [mv.ablate(model, record.text, [head], target="box") for head in ((1, 2), (0, 7))]
    before, *after = (
        f"{math.exp(number):.0%}".replace("%", " %")
        for number in (found[0].target.before, *(one.target.after for one in found))
    )
    assert f"predicts “box” with {before}" in stop.vote_question.question
    assert f"falls to {after[0]} and stays the likeliest" in stop.vote_question.because
    assert f"falls to {after[1]}:" in stop.vote_question.because
    again = f"{after[0]} without L1 H2, and {after[1]} without L0 H7. With all heads it is {before}"
    assert again in stop.exercise[0].solution
    assert [one.after.candidates[0] == "box" for one in found] == [True, False]
    assert (stop.params["layer"], stop.params["head"]) == ("0", "7")
    tutorial = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
    assert f'text = "{record.text}"' in tutorial
    assert f"with {before}" in tutorial and f"falls to {after[1]}" in tutorial


def test_a_sheet_prints_the_address_on_which_an_exercise_is_done():
    number = next(i for i, stop in enumerate(STOPS, 1) if stop.exercise[-1].params)
    opens = ["" for _ in STOPS[number - 1].exercise[:-1]] + ["http://127.0.0.7/?head=3"]
    for answers in (False, True):
        page = sheet(number, "http://127.0.0.7/lab", opens, answers)
        assert page.count("http://127.0.0.7/?head=3") == 1 and "http://127.0.0.7/lab" in page


def test_the_stop_of_the_game_counts_what_its_page_counts():
    stop, model, record = _case("lab-find-the-head")
    labels = report(model.trace(record.text, keep=KEEP), model).labels
    fixed = {"previous_token", "next_token", "self", "first_token"}
    count = sum(any(f.label.key in fixed for f in head) for row in labels for head in row)
    assert stop.values == {"count": count, "n_heads": model.n_layers * model.n_heads, "right": 1}
    assert 0.1 <= count / stop.values["n_heads"] <= 0.5
