"""A class's votes are counted once each, anonymous, bounded, and gone when it is over."""

import json
import math
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.learn.frame import classroom
from mha_viz.learn.frame.contents import BY_KEY
from mha_viz.learn.frame.lesson import STOPS, Stop
from mha_viz.ui.state import class_answers
from mha_viz.ui.state.class_answers import Classes, classes
from tests.ui.compare_app import check
from tests.ui.test_glossary import app

QUESTION = "soft-lookup-predict-temperature"


def test_the_last_answer_of_a_page_counts_and_others_beside_it():
    found = Classes()
    code, other = found.open("t"), found.open("t")
    for page, option in (("a", 0), ("b", 2), ("a", 2), ("c", 1)):
        found.vote(code, "why", page, option)
    assert found.counts(code, "why", 3) == (0, 1, 2)
    for page in "cd":  # one has voted, the other looks first
        found.see(code, "why", page)
        found.vote(code, "why", page, 0)
    assert found.counts(code, "why", 3) == (0, 1, 2)
    assert found.counts(other, "why", 3) == found.counts(code, "how", 3) == (0, 0, 0)
    found.close(code)
    assert code not in found and found.counts(code, "why", 3) == (0, 0, 0)
    found.vote(code, "why", "a", 0)
    assert code not in found


def test_memory_is_bounded(monkeypatch):
    for name in ("MAX_CLASSES", "MAX_QUESTIONS", "MAX_PUPILS"):
        monkeypatch.setattr(class_answers, name, 3)
    found = Classes()
    used, unused = found.open("t"), found.open("t")
    for number in range(9):
        for page in "abcdef":
            found.vote(used, number, page, 0)
    assert [found.counts(used, number, 1)[0] for number in range(5)] == [3, 3, 3, 0, 0]
    found.open("t"), found.open("t")
    assert used in found and unused not in found


def test_a_browser_is_in_the_last_class_it_came_to_and_leads_its_own(monkeypatch):
    monkeypatch.setattr(class_answers, "MAX_BROWSERS", 3)
    found = Classes()
    code, other = found.open("anna"), found.open("ben")
    assert (found.of("anna"), found.of("ben"), found.of("carl")) == (code, other, None)
    assert found.leads(code, "anna") and not found.leads(code, "ben")
    found.join(other, "anna")
    assert found.of("anna") == other and found.leads(code, "anna")
    for name in "xyz":
        found.join(code, name)
    assert found.of("anna") is None and found.of("z") == code
    found.close(code)
    assert found.of("z") is None and not found.leads(code, "anna")


def _question() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn.frame import frame
    from mha_viz.learn.frame.choices import Choices
    from mha_viz.learn.frame.contents import BY_KEY

    frame.sidebar()
    frame.predict(
        Choices(BY_KEY["soft-lookup"]), "temperature", "What?", ["one", "two"], 1, "So it is."
    )


def pupil(code: str = "") -> AppTest:
    page = AppTest.from_function(_question, default_timeout=300)
    if code:
        page.query_params[classroom.PARAM] = code
    return page.run()


@pytest.fixture
def cookies(monkeypatch):
    """What the browser of the pages that are opened from now on sends."""
    sent: dict[str, str] = {}
    monkeypatch.setattr("streamlit.runtime.context.ContextProxy.cookies", property(lambda _: sent))
    return sent


def kept(page: AppTest) -> dict[str, str]:
    """The cookie that the page sets."""
    found = [part.proto for part in page.get("bidi_component")]
    (proto,) = (one for one in found if one.component_name == "mha_viz.class_cookie")
    told = json.loads(proto.json)
    return {told["name"]: told["value"]}


def said(page: AppTest) -> str:
    assert not page.exception
    return " ".join(part.value for part in page.markdown)


def counted(code: str) -> tuple[int, ...]:
    return classes().counts(code, (QUESTION, ("one", "two")), 2)


def test_pupils_vote_before_the_answer_and_see_the_class_after_it():
    code = classes().open("teacher")
    first, second = pupil(code), pupil(code)
    first.radio[0].set_value("one").run()
    assert counted(code) == (1, 0) and "Your class" not in said(first)
    first.button[0].click().run()
    assert "Your class:** 1 answer so far" in said(first)
    first.button[0].click().run()
    first.radio[0].set_value("two").run()  # the answer is hidden again, but has been seen
    assert counted(code) == (1, 0)
    second.radio[0].set_value("two").run()
    assert code in second.sidebar.caption[0].value
    classes().close(code)
    assert "is over" in second.run().sidebar.caption[0].value


def test_a_teacher_sees_how_many_have_answered_and_the_bars_with_the_answer(cookies):
    """The teacher's screen is what the class looks at."""
    page = AppTest.from_function(_lesson, default_timeout=300).run()
    page.button(key="class-open").click().run()
    code, own = page.code[0].value.rpartition("class=")[2], kept(page)
    pupil(code).radio[0].set_value("two").run()
    cookies |= own
    teacher = pupil()
    assert "Your class:** 1 answer so far" in said(teacher) and not teacher.get("progress")
    teacher.button[0].click().run()
    assert [bar.proto.text for bar in teacher.get("progress")] == ["one: 0", "two: 1"]
    teacher.button[0].click().run()
    assert not teacher.get("progress")


def test_a_page_that_is_loaded_again_is_in_its_class_and_votes_once(cookies):
    code = classes().open("teacher")
    page = pupil(code)
    cookies |= kept(page)
    page.radio[0].set_value("one").run()
    again = pupil()  # from an address that does not name the class
    assert code in again.sidebar.caption[0].value and "count" in again.sidebar.caption[0].value
    again.radio[0].set_value("two").run()
    assert counted(code) == (0, 1) and kept(again) == cookies
    again.button[0].click().run()
    assert "Your class:** 1 answer so far" in said(again)
    once_more = pupil()
    once_more.radio[0].set_value("one").run()
    assert counted(code) == (0, 1)  # the answer has been seen


@pytest.mark.parametrize("sent", ["", "x", "a" * 23, "ä" * 22, "<script>alert(1)</scri"])
def test_a_cookie_that_is_none_of_ours_is_not_taken_over(cookies, sent):
    cookies[classroom.COOKIE] = sent
    assert kept(pupil(classes().open("teacher")))[classroom.COOKIE] != sent


def test_who_is_in_no_class_gets_no_cookie(cookies):
    assert not [part for part in pupil().get("bidi_component") if "cookie" in part.proto.json]


def test_a_page_in_no_class_counts_nothing():
    page = pupil("zzzzz")
    page.radio[0].set_value("one").run()
    page.button[0].click().run()
    assert "Your class" not in said(page) and "zzzzz" not in classes()


def _linked() -> None:
    """The lesson where its pages are there to be linked to; runs as an app."""
    import streamlit as st

    from mha_viz.learn.frame import lesson
    from mha_viz.learn.frame.lesson import STOPS

    def drawn() -> None:
        lesson.draw()

    pages = [st.Page(lambda: None, title=stop.page, url_path=stop.page) for stop in STOPS]
    st.session_state.pages = {page.url_path: page for page in pages}
    st.navigation([st.Page(drawn, title="teach", url_path="teach", default=True), *pages]).run()


def _lesson() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn.frame import lesson

    lesson.draw()


def test_a_teacher_opens_a_class_hands_out_its_link_and_ends_it():
    page = AppTest.from_function(_lesson, default_timeout=300).run()
    text = check(page)
    for stop in STOPS:
        assert f"{stop.minutes} minutes" in text
    assert "class=" not in page.code[0].value
    page.button(key="class-open").click().run()
    link = page.code[0].value
    code = link.rpartition("class=")[2]
    assert "/lab-soft-lookup?" in link and code in classes()
    assert "Only you can open this link" in said(page)
    page.toggle(key="lesson-qr").set_value(True).run()
    check(page)
    assert len(page.get("image")) == 1
    page.button(key="class-end").click().run()
    assert code not in classes() and "class=" not in page.code[0].value


def test_a_teacher_who_loads_the_page_again_still_leads_the_class(cookies):
    page = AppTest.from_function(_lesson, default_timeout=300).run()
    page.button(key="class-open").click().run()
    link, cookie = page.code[0].value, kept(page)
    assert "you lead it" in page.sidebar.caption[0].value
    cookies |= cookie
    again = AppTest.from_function(_lesson, default_timeout=300).run()
    assert again.code[0].value == link
    cookies.clear()  # another browser, at the address that is handed out
    other = pupil(link.rpartition("class=")[2])
    assert "you lead it" not in other.sidebar.caption[0].value
    again.button(key="class-end").click().run()
    assert "class=" not in again.code[0].value


def test_the_route_is_a_lesson_of_pages_that_are_there():
    pages = app().session_state.pages
    assert [stop.page for stop in STOPS] == [
        "lab-soft-lookup",
        "lab-two-places",
        "lab-step-by-step",
        "intervene",
        "lab-find-the-head",
    ]
    assert {stop.page for stop in STOPS} <= pages.keys() and "teach" in pages
    assert sum(stop.minutes for stop in STOPS) == 45
    assert BY_KEY["find-the-head"].address == STOPS[-1].page


def _case(page: str) -> tuple[Stop, mv.AttentionModel, mv.AttentionRecord]:
    """A stop of the lesson, and what its link opens."""
    (stop,) = (stop for stop in STOPS if stop.page == page)
    model = mv.load(stop.params["model"])
    return stop, model, model.trace(stop.params["text"])


def test_the_stop_of_shapes_says_those_on_the_screen():
    stop, model, record = _case("lab-step-by-step")
    n, width, d_head = len(record.tokens), model.d_model, model.d_head
    assert f"d_model {width} and {model.n_heads} heads, the text {n} tokens" in stop.question
    assert f"{n} × {d_head} for the queries, {n} × {n} for the weights, {n} × {width}" in (
        stop.solution
    )
    assert f"{n} × {width} for the queries" in stop.often and f"{n} × {d_head} for" in stop.often


def test_the_stop_of_switches_is_decided_by_the_model():
    stop, model, record = _case("intervene")
    assert record.labels[9] == "box"
    weight = {head: record.pattern[head][-1] for head in ((1, 2), (1, 3), (0, 7))}
    assert f"L1 H2 gives {weight[1, 2][9]:.0%}".replace("%", " %") in stop.question
    assert int(weight[1, 3].argmax()) == 9 and float(weight[0, 7][-2]) > 0.995
    found = [mv.ablate(model, record.text, [head], target="box") for head in ((1, 2), (0, 7))]
    before, *after = (
        f"{math.exp(number):.0%}".replace("%", " %")
        for number in (found[0].target.before, *(one.target.after for one in found))
    )
    assert f"predicts “box” with {before}" in stop.question
    assert f"falls to {after[0]} and stays the likeliest" in stop.solution
    assert f"falls to {after[1]}:" in stop.solution
    assert [one.after.candidates[0] == "box" for one in found] == [True, False]
    assert (stop.params["layer"], stop.params["head"]) == ("0", "7")
    tutorial = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
    assert f'text = "{record.text}"' in tutorial
    assert f"with {before}" in tutorial and f"falls to {after[1]}" in tutorial


def test_a_stop_opens_its_own_case():
    page = AppTest.from_function(_linked, default_timeout=300).run()
    check(page)
    links = {link.proto.page: link.proto.query_string for link in page.get("page_link")}
    for stop in STOPS:
        assert dict(parse_qsl(links[stop.page])) == stop.params


def test_the_solutions_are_right():
    shares = [math.exp(score) / (2 + 2) for score in (math.log(2), 0.0, 0.0)]
    assert shares == pytest.approx([1 / 2, 1 / 4, 1 / 4])
    assert sum(1 / row for row in (2, 3, 4, 5)) / 4 == pytest.approx(0.32, abs=0.005)
