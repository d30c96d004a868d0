"""Texts of visitors on the page Many texts, and the studies that they meet there."""

import threading
from dataclasses import replace

import pytest

import mha_viz as mv
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.run.study_builder import study as make_study
from mha_viz.errors import ArgumentError
from mha_viz.ui.jobs.heavy_queue import Jobs
from mha_viz.ui.operating.settings import Settings
from mha_viz.ui.run import heavy, studies, study_job
from mha_viz.ui.state import own_address
from mha_viz.ui.state.views import DEFAULT
from tests.making.comparing import close
from tests.ui.compare_app import check, said
from tests.ui.many_texts_app import made, making, many_texts

TEXTS = "The cat sat on the mat.\nA dog ran home because it was late.\nBirds sing.\n"


def test_texts_of_one_s_own_are_studied_and_the_link_finds_them_again(tmp_path):
    app = many_texts("own-texts")
    app.text_area(key="own-typed").set_value(TEXTS)
    app = made(app.button(key="own-study").click().run())
    check(app)
    assert "3 texts" in said(app)
    key = app.session_state.view.corpus
    (tmp_path / "texts.txt").write_text(TEXTS)
    expected = make_study(mv.load("tiny-bert"), tmp_path / "texts.txt", tmp_path / "study")
    shown = making(app).study
    close(shown.heads["mean"], expected.heads["mean"])
    again = many_texts("own-texts", corpus=key)
    assert "3 texts" in said(again)
    menu = again.selectbox(key="ask_corpus")
    assert len(menu.options) == 2 and menu.options[1].startswith("“The cat sat")
    check(menu.select("").run())
    assert again.session_state.view.corpus == ""


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("Größe (2).CSV", "Größe (2).CSV"),
        ("../../up.csv", "up.csv"),
        ("..\\*?<b>\n.csv", "..____b__.csv"),
        ("é" * 300 + ".csv", "é" * 50 + ".csv"),
    ],
)
def test_a_file_keeps_its_name_in_what_is_said_of_it(given, called):
    kept = studies.Studies()
    view = replace(DEFAULT, corpus=kept.add_texts(b"year,month\n1999,12\n2000,1\n", given))
    kept.begin(view, mv.load("tiny-bert"))
    found = kept.find(view)
    found.wait()
    assert found.texts.parent.parent == kept._folder
    assert f"of {called}" in str(found.error)


def test_what_cannot_be_studied_is_a_sentence():
    app = many_texts("own-texts")
    app = app.button(key="own-study").click().run()
    assert not app.exception and len(app.error) == 1
    app = app.run()  # all is there again
    check(app)
    keep = studies.Studies().add_texts
    for content, name, named in (
        (b"x" * 3_000_000, "a.txt", "2 MB"),
        (b"x" * 3_000_000, "", "2 MB"),
        (b"x", "a.txt.gz", ".txt"),
        (b"x", "txt", ".txt"),
    ):
        with pytest.raises(ArgumentError, match=named):
            keep(content, name)
    app = many_texts(corpus=studies.studies().add_texts(b"The cat sat on the mat.\n", ""))
    check(app)  # one text has no interval and no label, and nothing reads like NaN
    assert str(MIN_UNITS) in said(app)


def test_a_link_to_what_is_not_there_opens_on_what_is():
    app = many_texts(corpus="own_gone", layer="99", head="0", metric="nothing", kind="nothing")
    assert not app.exception and not app.error
    view = app.session_state.view
    assert view.corpus == "" and view.layer < 4 and view.metric == "entropy" and view.kind == ""


def test_two_visitors_make_one_study_which_stops_and_goes_on():
    model, kept = mv.load("tiny-bert"), studies.Studies()
    view = replace(DEFAULT, corpus=kept.add_texts(TEXTS.encode(), ""))
    kept.begin(view, model)
    found = kept.find(view)
    found.stop()
    begun = found._ticket
    kept.begin(view, model)
    assert found._ticket is begun or begun.ended
    found.stop()
    found.wait()
    assert found.study is None and found.error is None and not found.runs
    kept.begin(view, model)
    found.wait()
    assert found.study.n_texts == 3


@pytest.mark.parametrize("by", ["session", "address"])
def test_give_of_many_texts_pushes_out_those_of_the_same_visitor(monkeypatch, by):
    kept, who = studies.Studies(), "a"
    if by == "session":
        monkeypatch.setattr(heavy, "session", lambda: who)
    else:
        monkeypatch.setattr(studies.streamlit_run, "visitor_address", lambda: who)
    monkeypatch.setattr(studies, "settings", lambda: Settings(max_studies=3))
    first = [kept.add_texts(b"Of a.", ""), kept.add_texts(b"Also of a.", "")]
    for key in first:
        kept.find(replace(DEFAULT, corpus=key))
    who = "b"
    second = [kept.add_texts(f"Of b, {i}.".encode(), "") for i in range(5)]
    assert list(kept.titles()) == [first[1], *second[-2:]]  # a gave way once, to an equal share
    kept.find(replace(DEFAULT, corpus=second[-1]))
    assert len(kept._jobs) == 3
    who = "c"  # one who comes anew pushes out the oldest of who has most
    new = kept.add_texts(b"Of c.", "")
    assert list(kept.titles()) == [first[1], second[-1], new]
    beside = {path.stem for path in kept._folder.glob("*.json")}
    assert beside == {*kept.titles(), *kept._jobs}


@pytest.mark.parametrize("public", [False, True])
def test_begin_of_a_study_whose_visitors_leave_ends_and_in_public_deletes_it(monkeypatch, public):
    lane, who = Jobs(Settings(heavy_running=1, heavy_per_session=1)), "a"
    begun, goes_on = threading.Event(), threading.Event()

    def slow(model, texts, folder, on_progress, **options):
        folder.mkdir(exist_ok=True)
        (folder / "part").write_bytes(bytes(97))
        begun.set()
        while not goes_on.wait(0.01):
            on_progress(Progress(3, 13, 97, 0.0, None))

    monkeypatch.setattr(study_job, "study", slow)
    monkeypatch.setattr(studies, "settings", lambda: Settings(public=public))
    monkeypatch.setattr(heavy, "jobs", lambda: lane)
    monkeypatch.setattr(heavy, "session", lambda for_all=False: "" if for_all else who)
    monkeypatch.setattr(heavy.memory, "visitor", lambda: None)
    kept, model = studies.Studies(), mv.load("tiny-bert")
    view = replace(DEFAULT, corpus=kept.add_texts(TEXTS.encode(), ""))
    kept.begin(view, model)
    assert begun.wait(60)
    for who in "bba":  # noqa: B007 - who looks at it waits for it, too, and once
        kept.begin(view, model)
    (job,) = lane._running
    assert [ticket.session for ticket in job.waits] == ["a", "b"]
    lane.leave_all("a")
    assert kept.find(view).runs and not job.stop.is_set
    lane.leave_all("b")
    kept.find(view).wait()
    assert job.stop.is_set and kept.find(view).study is None and kept.find(view).error is None
    assert kept.find(view).folder.exists() is not public
    assert kept.find(view).progress.n_texts == (0 if public else 3)  # of what is still there
    begun.clear()
    kept.begin(view, model)  # anew, or from its parts; what one stops oneself, one may continue
    assert begun.wait(60)
    kept.find(view).stop()
    kept.find(view).wait()
    assert kept.find(view).folder.exists()


def test_only_who_sits_at_the_machine_is_offered_the_texts_of_earlier_visits(monkeypatch):
    key = studies.studies().add_texts(b"Given by another visit.", "earlier.txt")
    assert "earlier.txt" not in many_texts().selectbox(key="ask_corpus").options
    assert (
        "earlier.txt" in many_texts(corpus=key).selectbox(key="ask_corpus").options
    )  # has the link
    monkeypatch.setattr(own_address, "only_here", lambda: True)
    assert "earlier.txt" in many_texts().selectbox(key="ask_corpus").options


def test_servers_share_texts_and_studies_and_keep_no_more_than_one_may(tmp_path, monkeypatch):
    """Two in one process: what they know of each other lies in the folder."""
    monkeypatch.setattr(studies, "settings", lambda: Settings(max_studies=3))
    model, first, second = (
        mv.load("tiny-bert"),
        studies.Studies(tmp_path),
        studies.Studies(tmp_path),
    )
    view = replace(DEFAULT, corpus=first.add_texts(TEXTS.encode(), "mine.txt"))
    assert second.titles() == {view.corpus: "mine.txt"} and second.finished(view) is None
    first.begin(view, model)
    first.find(view).wait()
    made, found = first.find(view).study, second.find(view)
    assert found.study.manifest == made.manifest and not found.runs  # opened, and not made anew
    assert second.finished(view).n_texts == 3
    again = studies.Studies(tmp_path)  # as after the end of the first
    assert again.find(view).study.n_texts == 3
    for number in range(3):
        other = replace(view, corpus=second.add_texts(f"Other {number}.".encode(), ""))
        assert second.find(other) is not None
    assert len(second.titles()) == 3 and first.find(view) is None and not made.folder.exists()
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".json"}
    for key in ("../../etc", "own_/etc", "own_" + "0" * 32, "own_" + "A" * 32, "own_\0"):
        assert first.find(replace(view, corpus=key)) is None
