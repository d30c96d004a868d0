"""Heavy work as pages hand it over: where it runs, and what they say when there is no room."""

import threading
from functools import partial

import pytest
import torch
from streamlit.runtime.state.session_state_proxy import SessionStateProxy

import mha_viz as mv
from mha_viz.core.metrics.pairs import hellinger
from mha_viz.interventions import importance as module
from mha_viz.interventions.importance import head_importance
from mha_viz.ui.jobs.heavy_queue import Jobs
from mha_viz.ui.jobs.ticket import SHORT_SECONDS, Work
from mha_viz.ui.operating.settings import Settings
from mha_viz.ui.run import heavy, memory, page_lock, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.why import patching
from tests.making.comparing import close
from tests.ui.compare_app import check, said, table
from tests.ui.why_app import importance_page, press
from tests.waiting import PATIENCE

GPT2 = ("tiny-gpt2", "cpu", "float32")
TEXTS = ("A dog ran home.", "Birds sing.")


@pytest.fixture
def busy(monkeypatch):
    """A lane whose only place is taken, and which lets nobody wait."""
    lane, done = Jobs(Settings(heavy_running=1, heavy_waiting=0)), threading.Event()
    monkeypatch.setattr(heavy, "jobs", lambda: lane)
    lane.ask(Work("somebody else's", lambda tell: done.wait()), "")
    yield lane
    done.set()


@pytest.fixture
def elsewhere(monkeypatch):
    """Work may leave this process, as it does in the app; and does so in no lane but the test's."""
    lane = Jobs(Settings(heavy_running=1))
    monkeypatch.setattr(heavy, "jobs", lambda: lane)
    monkeypatch.setattr(heavy, "_fits_twice", lambda n_bytes: True)
    yield lane
    lane.workers.put_away()


def test_work_without_progress_is_said_to_be_stuck(elsewhere, monkeypatch):
    monkeypatch.setattr(heavy, "SILENCE", 0.01)
    said = threading.Event()
    frozen = Work("frozen", lambda tell: said.wait(PATIENCE))
    assert heavy.do(frozen, lambda news: None, lambda seconds: said.set())
    monkeypatch.setattr(heavy, "SILENCE", PATIENCE)
    at_work = Work("at work", lambda tell: [tell(number) for number in range(9)])
    assert len(heavy.do(at_work, lambda news: None, lambda seconds: 1 / 0)) == 9


def importance(seconds):
    function = partial(head_importance, heavy.model_of(GPT2), TEXTS)
    return heavy.work(function, TEXTS, seconds)


def test_a_full_server_says_so_and_the_page_stays_whole(busy):
    app = press(importance_page(more="A dog ran home."), "measure")
    assert not app.exception and {"measure", "prune"} <= {part.key for part in app.button}
    assert any("try again in about 1 min" in one.value for one in app.error)
    assert app.text_area(key="ask_text").value
    assert busy.figures()["refused"] == 1


def test_what_runs_here_and_there_is_the_same(elsewhere, monkeypatch):
    app = importance_page("importance", more="A dog ran home.")
    press(app, "measure")
    here = table(app, "importance", "low")
    assert not elsewhere.workers.pids
    monkeypatch.setattr(module, "seconds_per_token", lambda *given: 1.0)
    app = importance_page("importance", more="A dog ran home.")
    assert "minutes on this machine" in said(app)
    press(app, "measure")
    check(app)
    assert len(elsewhere.workers.pids) == 1
    there = table(app, "importance", "low")
    close(there, here)


def test_short_work_stays_here_and_work_without_room_as_well(elsewhere, monkeypatch):
    assert importance(SHORT_SECONDS / 2).short and not importance(2 * SHORT_SECONDS).short
    assert importance(None).call.models == [heavy.model_of(GPT2)]
    monkeypatch.setattr(heavy, "_fits_twice", lambda n_bytes: False)
    assert importance(None).call is None


def test_patching_over_a_sentence_is_expected_to_begin_at_once_and_over_a_page_on_request():
    model = mv.load("tiny-bert")
    runs = {n: 4 * (3 * n + 8) / 2 for n in (20, 128)}  # of all maps; half of the layers are run
    sentence, page = (heavy.seconds(model, int(n * n_runs)) for n, n_runs in runs.items())
    assert sentence < 1 < patching.AT_ONCE < page


def test_equal_work_of_two_visitors_has_one_key_and_other_work_another():
    assert importance(None).key == importance(1.0).key
    other = partial(head_importance, heavy.model_of(GPT2), TEXTS, "gradient")
    assert heavy.work(other, (TEXTS, "gradient")).key != importance(None).key


SCENE = Scene("a model", "cpu", "float32", "encoder", "a text", None)


class Overtaken(BaseException):
    """Exception like Streamlit's where a run that was overtaken reads its state."""


def test_an_overtaken_run_ends_with_its_block_and_leaves_nothing(monkeypatch) -> None:
    running, ended, contains = [], [], SessionStateProxy.__contains__

    def read(self, key):
        if running:
            running.clear()
            raise Overtaken
        return contains(self, key)

    def make():
        running.append(1)
        found = hellinger(torch.rand(2, 3, 5, 5).softmax(-1))
        ended.append(1)
        return found

    monkeypatch.setattr(SessionStateProxy, "__contains__", read)
    monkeypatch.setattr(page_lock, "PATIENCE", -1.0)
    with pytest.raises(Overtaken):
        reporting.cached(SCENE, "a measure", make=make)
    assert not ended and memory.cache().find((SCENE.key, "a measure")) is None
    monkeypatch.setattr(SessionStateProxy, "__contains__", contains)
    found = reporting.cached(SCENE, "a measure", make=make)
    assert ended and reporting.cached(SCENE, "a measure", make=make) is found
