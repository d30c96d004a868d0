"""Studies stand still while somebody waits for a page, and come to their end all the same."""

import functools
import threading

import pytest
import torch

from mha_viz.ui.jobs.turns import CooperativeYield
from mha_viz.ui.run import page_lock
from mha_viz.ui.run.page_lock import page_run

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


def test_work_ends_though_pages_never_do(monkeypatch):
    monkeypatch.setattr("mha_viz.ui.jobs.turns.LONGEST", 0.1)
    cooperative_yield = CooperativeYield()
    with page_run():
        for _ in range(20):
            cooperative_yield()


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
