"""A class's votes are counted once each, anonymous, bounded, and gone when it is over."""

import contextlib
import html
import json
import math
import random
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.errors import ClassError, SettingsError
from mha_viz.learn.frame import classroom
from mha_viz.learn.frame.lesson_plan import STOPS, Stop, sheet
from mha_viz.ui.jobs.turns import turns
from mha_viz.ui.operating.settings import Settings
from mha_viz.ui.state import class_answers
from mha_viz.ui.state.class_answers import Classes, classes
from mha_viz.ui.widgets.messages.messages import plain
from tests.ui.lab_app import link
from tests.waiting import wait_for

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


def test_servers_that_share_a_folder_have_the_same_classes(tmp_path):
    """Also after all of them have ended."""
    first, second = (Classes(tmp_path / class_answers.FILE) for _ in "ab")
    code, leader = first.first("anna")
    assert second.first("ben") == (code, "anna") == (code, leader)
    second.join(code, "carl")
    first.vote(code, "why", "carl", 1)
    second.vote(code, "why", "dora", 1)
    second.bring(code, 3)
    for each in (first, second, Classes(tmp_path / class_answers.FILE)):
        assert each.counts(code, "why", 2) == (0, 2) and each.size(code) == 1
        assert each.place(code) == (3, 1) and each.of("carl") == code and each.leads(code, leader)
    second.bring(code, 3), second.join(code, "carl")
    assert first.place(code) == (3, 2) and first.size(code) == 1
    assert first.place("zzzzz") == (0, 0)
    first.close(code)
    assert code not in second and second.counts(code, "why", 2) == (0, 0)
    assert Classes(tmp_path / class_answers.FILE).first("ben") == (code, "anna") and code in second


def test_a_folder_that_cannot_hold_classes_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(class_answers, "settings", lambda: Settings(shared=str(tmp_path / "file")))
    with pytest.raises(SettingsError, match="shared"):
        classes.__wrapped__()


def test_votes_of_many_threads_are_all_counted(tmp_path):
    both = [Classes(tmp_path / class_answers.FILE) for _ in "ab"]
    code = both[0].open("t")
    with ThreadPoolExecutor(class_answers.MAX_PUPILS) as threads:
        for number in range(class_answers.MAX_PUPILS):
            threads.submit(both[number % 2].vote, code, "why", f"p{number}", number % 3)
    assert both[0].counts(code, "why", 3) == (67, 67, 66)


@pytest.fixture
def shared(tmp_path, operated, monkeypatch):
    """The folder of a server that shares its classes; it waits shortly for those of others."""
    operated(shared=tmp_path / "shared")
    monkeypatch.setattr(class_answers, "PATIENCE", 0.2)
    classes.cache_clear()
    yield tmp_path / "shared"
    for kept in (classes, class_answers.first_class):
        kept.cache_clear()


@contextlib.contextmanager
def unusable(folder: Path, how: str):
    """A file of classes that another process holds, or was overwritten, or deleted."""
    file, aside = folder / class_answers.FILE, folder.with_name("aside")
    if how == "held":
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin exclusive")
            yield
            other.rollback()
        return
    folder.rename(aside)
    if how == "overwritten":
        folder.mkdir()
        file.write_bytes(b"no data base " * 1000)
    yield
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)


@pytest.mark.parametrize("how", ["held", "overwritten", "deleted"])
def test_a_class_that_cannot_be_reached_is_one_sentence_on_its_pages(shared, how, cookies):
    code = classes().open("teacher")
    page = pupil(code)
    assert not page.warning and class_answers.problem() == ""
    with unusable(shared, how):
        problem = class_answers.problem()
        assert problem.count(". ") == 1 and str(shared) not in problem
        page.radio[0].set_value("one").run()
        said(page)
        assert [one.value for one in page.sidebar.warning] == [plain(problem)]
        assert page.radio[0].value == "one"  # the page is there all the same
        other = pupil()
        assert not other.exception and not other.warning and other.radio
    assert counted(code) == (0, 0) and class_answers.problem() == ""
    page.run()
    assert counted(code) == (1, 0) and not page.warning


def test_pages_of_no_class_read_none(monkeypatch, cookies):
    monkeypatch.setattr(classroom, "classes", None)  # whoever calls it falls
    page = pupil()
    page.radio[0].set_value("one").run()
    page.button[0].click().run()
    said(page)


def test_a_run_that_waits_for_the_class_lets_others_run(shared, monkeypatch):
    code = classes().open("teacher")
    monkeypatch.setattr(class_answers, "PATIENCE", 30.0)

    def run() -> tuple[bool, int]:
        with turns.run():
            return code in classes(), turns.short.running

    with ThreadPoolExecutor(1) as thread, unusable(shared, "held"):
        answer = thread.submit(run)
        wait_for(lambda: turns.under_way == 0 and turns.short.figures()["turns"] > 0, "no turn")
        assert turns.short.running == 0 and not answer.done()
    assert answer.result() == (True, 1)


def test_a_damaged_file_of_classes_is_an_error_of_ours(shared):
    """One flipped bit each: the server does not start, says a sentence, or reads something."""
    code = classes().open("teacher")
    classes().bring(code, 3), classes().join(code, "anna")
    for option in range(40):
        classes().vote(code, "why", f"p{option}", option % 3)
    file, draw = shared / class_answers.FILE, random.Random(5)
    sound, refused = file.read_bytes(), 0
    used = [at for at, byte in enumerate(sound) if byte]
    for _ in range(200):
        damaged = bytearray(sound)
        damaged[draw.choice(used)] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        classes.cache_clear()
        try:
            assert all(isinstance(number, int) for number in classes().place(code))
            assert len(classes().counts(code, "why", 3)) == 3 and classes().size(code) >= 0
            assert classes().of("anna") is None or len(classes().of("anna")) == class_answers.CODE
        except (SettingsError, ClassError):
            refused += 1
        file.unlink()
        Path(f"{file}-journal").unlink(missing_ok=True)
    assert 0 < refused < 200
    file.write_bytes(sound[:2000] + bytes(len(sound) - 2000))
    with pytest.raises(SettingsError, match="damaged"):
        classes.__wrapped__()


def _question() -> None:
    """Runs as an app, so it imports what it needs."""
    import streamlit as st

    from mha_viz.learn.frame import class_page, frame
    from mha_viz.learn.frame.choices import Choices
    from mha_viz.learn.frame.contents import BY_KEY

    class_page.follow("here")
    frame.predict(
        Choices(BY_KEY["soft-lookup"]), "temperature", "What?", ["one", "two"], 1, "So it is."
    )
    st.markdown("Weights of the lab")


def pupil(code: str = "") -> AppTest:
    page = AppTest.from_function(_question, default_timeout=300)
    if code:
        page.query_params[classroom.PARAM] = code
    return page.run()


@pytest.fixture
def cookies(monkeypatch):
    """Set the cookies that the browser of pages opened from now on sends."""
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
    assert counted(code) == (1, 0)
    before = said(first)
    first.button[0].click().run()
    assert "1 answer" in said(first) and "1 answer" not in before
    assert "Weights" in said(first) and "Weights" not in before and "Weights" in said(pupil())
    first.button[0].click().run()
    first.radio[0].set_value("two").run()  # the answer is hidden again, but has been seen
    assert counted(code) == (1, 0)
    second.radio[0].set_value("two").run()
    joined = second.sidebar.caption[0].value
    assert code in joined
    classes().close(code)
    assert second.run().sidebar.caption[0].value != joined


def test_a_teacher_sees_how_many_have_answered_and_the_bars_with_the_answer(cookies):
    """The teacher's screen is what the class looks at."""
    page = AppTest.from_function(_lesson, default_timeout=300).run()
    page.button(key="class-open").click().run()
    code, own = page.code[0].value.rpartition("class=")[2], kept(page)
    pupil(code).radio[0].set_value("two").run()
    cookies |= own
    teacher = pupil()
    assert "1 answer" in said(teacher) and not teacher.get("progress")
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
    assert code in again.sidebar.caption[0].value and again.radio[0].value == "one"
    again.radio[0].set_value("two").run()
    assert counted(code) == (0, 1) and kept(again) == cookies
    again.button[0].click().run()
    once_more = pupil()
    assert once_more.radio[0].value == "two" and "Weights" in said(once_more)
    once_more.radio[0].set_value("one").run()
    assert counted(code) == (0, 1)  # the answer has been seen


@pytest.mark.parametrize("sent", ["", "x", "a" * 23, "ä" * 22, "<script>alert(1)</scri"])
def test_a_cookie_that_is_none_of_ours_is_not_taken_over(cookies, sent):
    cookies[classroom.COOKIE] = sent
    assert kept(pupil(classes().open("teacher")))[classroom.COOKIE] != sent


def _linked(first: str = "teach") -> None:
    """The lesson where its pages are there to be linked to; runs as an app."""
    import streamlit as st

    from mha_viz.learn.frame import class_page, lesson
    from mha_viz.learn.frame.lesson_plan import STOPS
    from mha_viz.ui.state import state

    def teach() -> None:
        lesson.draw()

    def join() -> None:
        class_page.draw()

    drawn = {"teach": teach, "class": join}
    others = ["explore", *(stop.page for stop in STOPS)]
    pages = [st.Page(draw, url_path=key, default=key == first) for key, draw in drawn.items()]
    pages += [st.Page(lambda: None, title=key, url_path=key) for key in others]
    st.session_state.pages = {page.url_path or first: page for page in pages}
    page = st.navigation(pages)
    st.session_state.at = page.url_path or first
    state.on_page_enter(st.session_state.at)
    class_page.follow(st.session_state.at)
    page.run()


def _lesson() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn.frame import class_page, lesson

    class_page.follow("teach")
    lesson.draw()


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
    assert question.options == list(STOPS[3].asked.options)
    question.set_value("L0 H7").run()
    key = f"lesson-{STOPS[3].page}", STOPS[3].asked.options
    assert classes().counts(code, key, 3) == (0, 1, 0)
    page.run()
    assert where(page) == STOPS[3].page  # nobody has moved the class
    cookies |= own
    other = AppTest.from_function(_linked, args=("class",), default_timeout=300).run()
    assert where(other) == "class" and other.code[0].value.endswith(f"/class?class={code}")
    teacher.button(key="class-bring-1").click().run()
    assert where(other.run()) == STOPS[0].page and where(teacher) == "teach"
    teacher.button(key="class-bring-4").click().run()
    cookies.clear()
    late = AppTest.from_function(_linked, args=("class",), default_timeout=300)
    late.query_params["class"] = code
    assert where(late.run()) == STOPS[3].page


def test_a_page_that_a_late_question_has_emptied_is_opened_anew(monkeypatch):
    """As where a fragment of the page before is run once more after the new page is drawn."""
    asked: list[str] = []

    def page_hash() -> str:
        asked.append("")
        return "the page before" if len(asked) == 2 else "the new page"

    monkeypatch.setattr("mha_viz.ui.operating.streamlit_run.page_hash", page_hash)
    page = AppTest.from_function(_linked, args=("class",), default_timeout=300)
    page.query_params["class"] = classes().open("teacher")
    assert where(page.run()) == "class" and len(asked) == 4 and page.main.title


def test_a_server_for_a_class_keeps_the_one_of_its_teacher(operated, cookies):
    operated(classroom=1)
    class_answers.first_class.cache_clear()
    code, leader = class_answers.first_class()
    page = AppTest.from_function(_lesson, default_timeout=300).run()
    assert not page.exception and not page.button
    page.query_params[classroom.LEAD] = leader[:-1]
    assert not page.run().button
    page = AppTest.from_function(_lesson, default_timeout=300)
    page.query_params[classroom.LEAD] = leader
    assert page.run().code[0].value.endswith(f"/class?class={code}")
    assert kept(page) == {classroom.COOKIE: leader}
    page.button(key="class-end").click().run()
    page.button(key="class-open").click().run()
    assert page.code[0].value[-5:] in classes()


def test_a_teacher_who_loads_the_page_again_still_leads_the_class(cookies):
    page = AppTest.from_function(_lesson, default_timeout=300).run()
    page.button(key="class-open").click().run()
    shown, cookie = page.code[0].value, kept(page)
    leads = page.sidebar.caption[0].value
    cookies |= cookie
    again = AppTest.from_function(_lesson, default_timeout=300).run()
    assert again.code[0].value == shown
    cookies.clear()  # another browser, at the address that is handed out
    other = pupil(shown.rpartition("class=")[2])
    assert other.sidebar.caption[0].value != leads
    again.button(key="class-end").click().run()
    assert not again.code


def test_each_stop_has_a_sheet_and_one_with_its_solutions():
    for number, stop in enumerate(STOPS, 1):
        pupils, teacher = (html.unescape(sheet(number, "http://a/b", a)) for a in (False, True))
        asked = stop.asked
        for part in (asked.question, *asked.options, *(one.ask for one in stop.exercise)):
            assert part in pupils and part in teacher and not {"*", "$"} & set(part)
        for part in (asked.because, stop.often, *(one.solution for one in stop.exercise)):
            assert part not in pupils and part in teacher and not {"*", "$"} & set(part)


def _case(page: str) -> tuple[Stop, mv.AttentionModel, mv.AttentionRecord]:
    """A stop of the lesson, and what its link opens."""
    (stop,) = (stop for stop in STOPS if stop.page == page)
    model = mv.load(stop.params["model"])
    return stop, model, model.trace(stop.params["text"])


def test_the_stop_of_switches_is_decided_by_the_model():
    stop, model, record = _case("intervene")
    assert record.labels[9] == "box"
    weight = {head: record.pattern[head][-1] for head in ((1, 2), (1, 3), (0, 7))}
    assert f"L1 H2 gives {weight[1, 2][9]:.0%}".replace("%", " %") in stop.asked.question
    assert int(weight[1, 3].argmax()) == 9 and float(weight[0, 7][-2]) > 0.995
    found = [mv.ablate(model, record.text, [head], target="box") for head in ((1, 2), (0, 7))]
    before, *after = (
        f"{math.exp(number):.0%}".replace("%", " %")
        for number in (found[0].target.before, *(one.target.after for one in found))
    )
    assert f"predicts “box” with {before}" in stop.asked.question
    assert f"falls to {after[0]} and stays the likeliest" in stop.asked.because
    assert f"falls to {after[1]}:" in stop.asked.because
    again = f"{after[0]} without L1 H2, and {after[1]} without L0 H7. With all heads it is {before}"
    assert again in stop.exercise[0].solution
    assert [one.after.candidates[0] == "box" for one in found] == [True, False]
    assert (stop.params["layer"], stop.params["head"]) == ("0", "7")
    tutorial = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
    assert f'text = "{record.text}"' in tutorial
    assert f"with {before}" in tutorial and f"falls to {after[1]}" in tutorial
