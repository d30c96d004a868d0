"""A class: pupils vote once each and follow their teacher, who leads and nobody else."""

import math
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.learn.frame import classroom
from mha_viz.learn.frame.lesson_plan import STOPS, Stop, sheet
from mha_viz.reports.report import KEEP, report
from mha_viz.ui.state import class_answers
from mha_viz.ui.state.class_answers import classes
from tests.ui.class_app import QUESTION, captions, counted, kept, pupil, said, teach
from tests.ui.lab_app import link


def test_pages_of_no_class_read_none(monkeypatch, cookies):
    monkeypatch.setattr(classroom, "classes", None)  # whoever calls it falls
    page = pupil()
    assert page.button[0].disabled
    page.radio[0].set_value("one").run()
    page.button[0].click().run()
    assert "Weights" in said(page) and "It is no one." in page.info[0].value


def test_pupils_vote_and_wait_until_their_teacher_uncovers_the_answer():
    code = classes().open("teacher")
    first, second = pupil(code), pupil(code)
    assert "Counted" not in captions(first)
    first.radio[0].set_value("one").run()
    assert counted(code) == (1, 0) and "Counted" in captions(first) and not first.button
    assert "Weights" not in said(first) and "Weights" in said(pupil()) and not first.info
    classes().uncover(code, QUESTION)
    first.run()
    assert "1 answer" in said(first) and "Weights" in said(first)
    assert "It is no one." in first.info[0].value and "So it is." in first.info[0].value
    first.radio[0].set_value("two").run()
    second.radio[0].set_value("two").run()  # both too late
    assert counted(code) == (1, 0)
    assert code in captions(second)
    classes().close(code)
    assert code not in captions(second.run()) and "Weights" in said(second)


def test_a_page_that_is_loaded_again_is_in_its_class_and_votes_once(cookies):
    code = classes().open("teacher")
    page = pupil(code)
    cookies |= kept(page)
    page.radio[0].set_value("one").run()
    again = pupil()  # from an address that does not name the class
    assert code in captions(again) and again.radio[0].value == "one"
    again.radio[0].set_value("two").run()
    assert counted(code) == (0, 1) and kept(again) == cookies
    classes().uncover(code, QUESTION)
    once_more = pupil()
    assert once_more.radio[0].value == "two" and "Weights" in said(once_more)
    once_more.radio[0].set_value("one").run()
    assert counted(code) == (0, 1)  # the answer has been seen


def test_a_pupil_who_left_the_stop_of_the_class_needs_no_teacher(monkeypatch):
    code = classes().open("teacher")
    classes().bring(code, 2)
    page = pupil(code)
    assert "Weights" in said(page) and page.button[0].disabled
    page.radio[0].set_value("two").run()
    page.button[0].click().run()
    assert "So it is." in page.info[0].value and counted(code) == (0, 1)


@pytest.mark.parametrize("sent", ["", "x", "a" * 23, "ä" * 22, "<script>alert(1)</scri"])
def test_a_cookie_that_is_none_of_ours_is_not_taken_over(cookies, sent):
    cookies[classroom.COOKIE] = sent
    assert kept(pupil(classes().open("teacher")))[classroom.COOKIE] != sent


def _linked(first: str = "teach") -> None:
    """The lesson where its pages are there to be linked to; runs as an app."""
    import streamlit as st

    from mha_viz.learn.frame import class_page, lesson
    from mha_viz.learn.frame.lesson_plan import STOPS
    from mha_viz.ui.state import selection
    from mha_viz.ui.state.session import session

    def teach() -> None:
        lesson.draw()

    def join() -> None:
        class_page.draw()

    drawn = {"teach": teach, "class": join}
    others = {"heads", *(stop.page for stop in STOPS)}
    pages = [st.Page(draw, url_path=key, default=key == first) for key, draw in drawn.items()]
    pages += [st.Page(lambda: None, title=key, url_path=key) for key in others]
    session().pages = {page.url_path or first: page for page in pages}
    page = st.navigation(pages)
    st.session_state.at = page.url_path or first
    selection.on_page_enter(st.session_state.at)
    class_page.follow(st.session_state.at)
    page.run()


def where(page: AppTest) -> str:
    assert not page.exception
    return page.session_state["at"]


def test_pupils_follow_their_teacher_from_stop_to_stop(cookies):
    teacher = AppTest.from_function(_linked, default_timeout=300).run()
    teacher.button(key="class-open").click().run()
    code, own = teacher.code[0].value.rpartition("class=")[2], kept(teacher)
    page = AppTest.from_function(_linked, args=("class",), default_timeout=300).run()
    page.text_input(key="class-code").set_value("zzzzz").run()
    assert "zzzzz" in page.warning[0].value
    page.text_input(key="class-code").set_value(f" {code.upper()}").run()
    assert where(page) == "class" and classes().size(code) == 1
    for number in (2, 4, 4):
        teacher.button(key=f"class-bring-{number}").click().run()
        page.run()
        assert where(page) == STOPS[number - 1].page and where(teacher) == "teach"
        assert link(page) == STOPS[number - 1].params
    (question,) = page.radio  # of the page that is no lab
    assert question.options == list(STOPS[3].vote_question.options)
    question.set_value("L0 H7").run()
    assert classes().counts(code, STOPS[3].vote_key, 3) == (0, 1, 0)
    assert "1 of 1 pupil answered" in said(teacher.run())
    page.run()
    assert where(page) == STOPS[3].page  # nobody has moved the class
    cookies |= own
    other = AppTest.from_function(_linked, args=("class",), default_timeout=300).run()
    assert where(other) == "class" and other.code[0].value.endswith(f"/class?class={code}")
    teacher.button(key="class-bring-1").click().run()
    assert where(other.run()) == STOPS[0].page and where(teacher) == "teach"
    teacher.button(key="class-bring-2").click().run()
    # as if the run that was to open the stop had been overtaken by one of the page before
    other.session_state["class-on-the-way"] = classes().position(code).moves
    assert where(other.run()) == STOPS[1].page
    teacher.button(key="class-bring-4").click().run()
    cookies.clear()
    late = AppTest.from_function(_linked, args=("class",), default_timeout=300)
    late.query_params["class"] = code
    assert where(late.run()) == STOPS[3].page


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
