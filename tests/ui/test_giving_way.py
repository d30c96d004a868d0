"""Studies stand still while somebody waits for a page, and come to their end all the same."""

import functools
import threading
from dataclasses import replace

import pytest
import torch
from streamlit.runtime.scriptrunner import RerunData, RerunException

import mha_viz as mv
from mha_viz.ui.jobs.turns import CooperativeYield, turns
from mha_viz.ui.run import page_lock, studies, study_job
from mha_viz.ui.run.page_lock import page_run
from mha_viz.ui.state.views import DEFAULT
from mha_viz.ui.widgets.messages.messages import stop_on_error

FOREVER = 300


@pytest.fixture
def working():
    """Work of one block in a thread of its own, that gives way before it is done."""
    done = threading.Event()
    cooperative_yield = CooperativeYield()

    def work():
        cooperative_yield()
        done.set()

    thread = threading.Thread(target=work)
    thread.done = done
    yield thread
    thread.join(FOREVER)


def test_work_stands_still_until_the_last_page_is_done(working, monkeypatch):
    monkeypatch.setattr("mha_viz.ui.jobs.turns.LONGEST", FOREVER)
    with page_run():
        with page_run():
            working.start()
        assert not working.done.wait(0.5)
    assert working.done.wait(FOREVER)


def test_a_part_of_a_page_that_runs_by_itself_counts_and_even_if_it_fails_is_done():
    def fails():
        with stop_on_error():
            assert turns.under_way == 1
            raise RerunException(RerunData())

    with pytest.raises(RerunException):
        fails()
    assert turns.under_way == 0


def test_work_ends_though_pages_never_do(monkeypatch):
    monkeypatch.setattr("mha_viz.ui.jobs.turns.LONGEST", 0.1)
    cooperative_yield = CooperativeYield()
    with page_run():
        for _ in range(20):
            cooperative_yield()


def test_a_study_gives_way_within_a_batch_and_is_the_same_study(monkeypatch):
    calls = []
    monkeypatch.setattr(study_job, "CooperativeYield", lambda: lambda: calls.append(None))
    kept, model = studies.Studies(), mv.load("tiny-bert")
    view = replace(DEFAULT, corpus=kept.add_texts(b"Birds sing.\nIt rains.", ""))
    kept.begin(view, model)
    found = kept.find(view)
    found.wait()
    assert found.study.n_texts == 2
    assert len(calls) > 2 * model.n_layers  # of the model, and of random weights


def test_pages_that_are_run_meanwhile_have_all_processors(monkeypatch):
    before, found = torch.get_num_threads(), []
    usual = functools.cache(lambda: 3)
    monkeypatch.setattr(page_lock, "_usual_threads", usual)

    def page_is_run():
        with page_run():
            found.append(torch.get_num_threads())

    try:
        with page_lock.one_thread():
            page = threading.Thread(target=page_is_run)
            page.start()
            page.join()
            with page_run():  # a part of that page, as a fragment's first run is
                assert torch.get_num_threads() == 3
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert found == [3]
