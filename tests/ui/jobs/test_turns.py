"""Turns of pages, and work that gives way to newer work; by events, not by clocks."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch

from mha_viz.ui.jobs import turns as module
from mha_viz.ui.jobs.turns import CooperativeYield, Lane, Turns
from mha_viz.ui.run import page_lock
from mha_viz.ui.run.page_lock import page_run
from tests.waiting import wait_for

FOREVER = 300.0


class Left(Exception):
    """Somebody waits no more."""


class Runs:
    """Threads that take turns, each at the word of the test."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.begun, self.threads = turns, [], {}
        self._go_on: dict[str, threading.Event] = {}
        self._changed = threading.Condition()

    def start(
        self,
        name: str,
        inside: Callable[[], object] = lambda: None,
        who: str | None = None,
    ) -> None:
        """Begin a run; what is `inside` is done once its turn has come, before it may end."""
        self._go_on[name] = threading.Event()
        waiting = self.turns.short.waiting
        thread = threading.Thread(target=self._run, args=(name, inside, who), daemon=True)
        self.threads[name] = thread
        thread.start()
        wait_for(lambda: name in self.begun or self.turns.short.waiting > waiting, name)

    def _run(self, name: str, inside: Callable[[], object], who: str | None) -> None:
        with self.turns.run(who=who):
            self.note(name)
            inside()
            assert self._go_on[name].wait(FOREVER)

    def note(self, name: str) -> None:
        with self._changed:
            self.begun.append(name)
            self._changed.notify_all()

    def end(self, name: str) -> None:
        self._go_on[name].set()
        self.threads[name].join(FOREVER)

    def wait_for(self, *names: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun == list(names), FOREVER), self.begun


@pytest.fixture
def runs() -> Runs:
    return Runs(Turns(2))


def test_so_many_run_at_a_time_and_the_others_in_the_order_they_came(runs):
    for name in "abcde":
        runs.start(name)
    runs.wait_for("a", "b")
    assert (runs.turns.short.running, runs.turns.short.waiting) == (2, 3)
    runs.end("b")
    runs.wait_for("a", "b", "c")
    runs.end("a")
    runs.wait_for("a", "b", "c", "d")
    for name in "cde":
        runs.end(name)
    assert runs.begun == list("abcde")
    assert runs.turns.figures()["short"]["turns"] == 5
    assert (runs.turns.short.running, runs.turns.under_way) == (0, 0)


def test_take_of_many_from_one_address_lets_others_go_first(monkeypatch):
    monkeypatch.setattr(module, "ADDRESS_DELAY_SECONDS", FOREVER)
    lane, order = module.Lane(1), []
    lane.take()

    def wait(name, who):
        lane.take(who=who)
        order.append(name)
        lane.end(who)

    threads = []
    for name, who in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("x", None), ("y", None)]:
        threads.append(threading.Thread(target=wait, args=(name, who)))
        threads[-1].start()
        wait_for(lambda: lane.waiting == len(threads), f"{name} to wait")
    lane.end()
    for thread in threads:
        thread.join(FOREVER)
    assert order == ["a1", "b1", "x", "y", "a2", "a3"]


def test_run_of_one_address_leaves_a_turn_to_others():
    runs = Runs(Turns(2))
    for name, who in [("a1", "a"), ("a2", "a"), ("a3", "a")]:
        runs.start(name, who=who)
    runs.wait_for("a1")
    assert (runs.turns.short.running, runs.turns.short.waiting) == (1, 2)
    runs.start("b1", who="b")
    runs.start("x")
    runs.wait_for("a1", "b1")
    runs.end("a1")
    runs.wait_for("a1", "b1", "a2")
    runs.end("b1")
    runs.wait_for("a1", "b1", "a2", "x")
    for name in ("a2", "a3", "x"):
        runs.end(name)
    assert runs.turns.short.running == 0 and not runs.turns.short._running


def test_what_can_wait_lets_those_go_first_who_came_later_and_gets_its_turn_again(monkeypatch):
    monkeypatch.setattr(module, "YIELD_SECONDS", FOREVER)
    runs = Runs(Turns(1))
    shown = threading.Event()

    def show_then_the_rest() -> None:
        assert shown.wait(FOREVER)
        runs.turns.requeue()
        runs.note("the rest of a")

    runs.start("a", show_then_the_rest)
    runs.start("b")
    shown.set()
    runs.wait_for("a", "b")
    runs.start("c")  # came after a passed its turn on, and goes before it
    runs.end("b")
    runs.wait_for("a", "b", "c")
    runs.end("c")
    runs.wait_for("a", "b", "c", "the rest of a")
    runs.end("a")


def test_who_waits_is_told_how_many_come_first_and_may_leave():
    turns, told = Turns(1), []

    def leave(before: int) -> None:
        told.append(before)
        raise Left

    def wait_in_vain() -> None:
        with suppress(Left), turns.run(leave):
            told.append("never")

    with turns.run():
        thread = threading.Thread(target=wait_in_vain)
        thread.start()
        thread.join(FOREVER)
        assert told == [0] and turns.short.waiting == 0 and turns.under_way == 1
    assert turns.short.running == 0


def test_a_turn_that_is_granted_to_somebody_who_leaves_goes_to_the_next():
    lane = Lane(1)
    lane.take()

    def granted_meanwhile(before: int) -> None:
        lane.end()  # the place has its turn now
        raise Left

    with pytest.raises(Left):
        lane.take(granted_meanwhile)
    assert lane.running == 0
    lane.take()  # would wait for ever


def test_a_run_that_waits_for_other_work_leaves_its_turn_and_counts_as_none(runs):
    with runs.turns.run(), runs.turns.run():
        assert (runs.turns.short.running, runs.turns.under_way) == (1, 1)
        with runs.turns.release_slot():
            assert (runs.turns.short.running, runs.turns.under_way) == (0, 0)
        assert (runs.turns.short.running, runs.turns.under_way) == (1, 1)
        with pytest.raises(Left), runs.turns.release_slot():
            raise Left
        assert (runs.turns.short.running, runs.turns.under_way) == (0, 1)
    assert (runs.turns.short.running, runs.turns.under_way) == (0, 0)


def test_long_work_is_done_one_at_a_time_while_short_runs_go_on():
    turns, inside, done = Turns(1), threading.Event(), threading.Event()

    def long_one() -> None:
        with turns.run(), turns.long_work():
            inside.set()
            assert done.wait(FOREVER)

    first = threading.Thread(target=long_one)
    first.start()
    assert inside.wait(FOREVER)
    with turns.run():  # does not wait
        assert turns.under_way == 1
    second = threading.Thread(target=long_one)
    second.start()
    wait_for(lambda: turns.long.waiting == 1, "the second")
    assert (turns.long.running, turns.short.running, turns.under_way) == (1, 0, 0)
    done.set()
    first.join(FOREVER)
    second.join(FOREVER)
    assert (turns.long.running, turns.short.running, turns.under_way) == (0, 0, 0)


def test_it_is_told_when_pages_begin_to_run_and_when_none_does():
    turns, heard = Turns(2), []
    turns.tell(heard.append)
    with turns.run(), ThreadPoolExecutor(1) as other:

        def runs_too():
            with turns.run():
                heard.append("two")

        other.submit(runs_too).result(FOREVER)
        with turns.release_slot():
            heard.append("waits")
    assert heard == [False, True, "two", False, "waits", True, False]
    turns.tell(heard.append)
    assert heard[-1] is False


ENDLESS = 300


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
    thread.join(ENDLESS)


def test_work_stands_still_until_the_last_page_is_done(working, monkeypatch):
    monkeypatch.setattr("mha_viz.ui.jobs.turns.MAX_PAUSE_SECONDS", ENDLESS)
    with page_run():
        with page_run():
            working.start()
        assert not working.done.wait(0.5)
    assert working.done.wait(ENDLESS)


def test_work_ends_though_pages_never_do(monkeypatch):
    monkeypatch.setattr("mha_viz.ui.jobs.turns.MAX_PAUSE_SECONDS", 0.1)
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
