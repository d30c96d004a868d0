"""The lane of heavy work: turns, equal requests, cancelling, limits; by events, not by clocks."""

import os
import threading
from functools import partial

import pytest

from mha_viz.errors import JobError
from mha_viz.ui.jobs import child_process
from mha_viz.ui.jobs import heavy_queue as lane
from mha_viz.ui.jobs.calls import Call, import_for
from mha_viz.ui.jobs.heavy_queue import FairQueue, Jobs
from mha_viz.ui.jobs.ticket import SHORT_SECONDS, Work
from mha_viz.ui.operating.settings import Settings

LONG = 60  # seconds until a test counts as hanging


class Overtaken(BaseException):
    """End of a page's run as Streamlit raises it: it is no `Exception`."""


class Gate:
    """Work that tells how far it is until it is let through, or stopped."""

    def __init__(self, key="gate", **options):
        self.begun, self.opened, self.ended = (threading.Event() for _ in range(3))
        self.calls = 0
        self.work = Work(key, self._run, **options)

    def _run(self, tell):
        self.calls += 1
        self.begun.set()
        try:
            while not self.opened.wait(0.01):
                tell(self.calls)
            return self
        finally:
            self.ended.set()


def one_at_a_time(**limits):
    return Jobs(Settings(heavy_running=1, **limits))


def quiet(news):
    """Whoever waits hears nothing."""


def thrown(lane, work, session, until, error=Overtaken):
    """A thread that waits for work and is overtaken once `until` is set."""

    def told(news):
        if until.is_set():
            raise error

    def wait():
        with pytest.raises(error):
            lane.do(work, session, told)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_sessions_take_turns_however_many_jobs_each_has():
    jobs, gate, begun = one_at_a_time(), Gate(), []
    jobs.ask(gate.work, "a")
    tickets = [
        jobs.ask(Work(name, lambda tell, name=name: begun.append(name)), name[0])
        for name in ("a1", "a2", "a3", "b1", "c1", "b2")
    ]
    gate.opened.set()
    for ticket in tickets:
        ticket.result(quiet)
    assert begun == ["b1", "c1", "a1", "b2", "a2", "a3"]  # a has just had a turn
    assert jobs.figures()["done"] == 7


def test_equal_requests_are_computed_once_and_all_hear_how_far_it_is():
    jobs, gate, heard = one_at_a_time(), Gate(), {"a": set(), "b": set()}
    both = threading.Barrier(2)

    def wait(session):
        def told(news):
            heard[session].add(news)
            if heard["a"] & heard["b"] & {(1,)}:
                gate.opened.set()

        both.wait(LONG)
        assert jobs.do(gate.work, session, told) is gate

    threads = [threading.Thread(target=wait, args=(name,)) for name in heard]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert gate.calls == 1 and (1,) in heard["a"] & heard["b"]
    assert jobs.figures()["done"] == 1


def test_a_job_ends_when_the_last_who_waits_is_overtaken_and_no_sooner():
    jobs, gate = one_at_a_time(), Gate()
    first, second = threading.Event(), threading.Event()
    threads = [thrown(jobs, gate.work, "a", first), thrown(jobs, gate.work, "b", second)]
    assert gate.begun.wait(LONG)
    while sum(len(job.waits) for job in jobs._running) < 2:
        pass
    first.set()
    threads[0].join(LONG)
    assert not any(job.stop.is_set for job in jobs._running)  # it would end a moment later
    assert not gate.ended.is_set() and jobs.figures()["running"] == 1
    second.set()
    threads[1].join(LONG)
    assert gate.ended.wait(LONG)
    after = jobs.do(Work("after", lambda tell: "goes on"), "a", quiet)
    assert after == "goes on" and jobs.figures()["cancelled"] == 1


def test_leave_all_ends_what_a_session_alone_waits_for():
    jobs, shared, own, queued = one_at_a_time(), Gate("shared"), Gate("own"), Gate("queued")
    kept = [jobs.ask(shared.work, session) for session in "ab"]
    assert shared.begun.wait(LONG)
    left = [jobs.ask(work, "a") for work in (own.work, queued.work)]
    jobs.leave_all("a")
    assert all(ticket.ended for ticket in left) and jobs.figures()["waiting"] == 0
    shared.opened.set()
    assert kept[1].result(quiet) is shared  # b waits for it still
    jobs.ask(own.work, "a")
    assert own.begun.wait(LONG)
    jobs.leave_all("a")
    assert own.ended.wait(LONG) and queued.calls == 0


def test_short_work_does_not_wait_for_heavy_work():
    jobs, gate = one_at_a_time(), Gate()
    jobs.ask(gate.work, "a")
    assert gate.begun.wait(LONG)
    short = jobs.ask(Work("short", lambda tell: 1, seconds=SHORT_SECONDS / 2), "b")
    assert short.waiting is None and short.result(quiet) == 1
    assert not gate.ended.is_set()
    gate.opened.set()


def test_patient_work_lets_others_go_first_and_comes_to_its_end(monkeypatch):
    monkeypatch.setattr(lane, "PATIENT_TURN_SECONDS", 0.0)
    jobs, study = one_at_a_time(), Gate(patient=True)
    ticket = jobs.ask(study.work, "a")
    assert study.begun.wait(LONG)
    for name in ("b", "c"):
        assert jobs.do(Work(name, lambda tell: 1), name, quiet) == 1
    assert not study.ended.is_set()
    study.opened.set()
    assert ticket.result(quiet) is study and study.calls == 1


def test_patient_work_can_be_stopped_while_others_have_their_turn(monkeypatch):
    monkeypatch.setattr(lane, "PATIENT_TURN_SECONDS", 0.0)
    jobs, study, other = one_at_a_time(), Gate(patient=True), Gate("other")
    ticket = jobs.ask(study.work, "a")
    jobs.ask(other.work, "b")
    assert other.begun.wait(LONG) and ticket.waiting is not None
    ticket.leave()
    assert study.ended.wait(LONG)
    ticket.wait()
    assert ticket.error is None and not other.ended.is_set()
    other.opened.set()


def test_a_full_queue_says_when_to_come_again():
    jobs, gate = one_at_a_time(heavy_waiting=1), Gate()
    jobs.ask(gate.work, "a")
    jobs.ask(Work("b", lambda tell: None), "b")
    with pytest.raises(JobError, match=r"1 heavy job .* 1 min"):
        jobs.ask(Work("c", lambda tell: None), "c")
    assert jobs.ask(gate.work, "c") is not None  # the same as somebody's costs nothing
    assert jobs.figures()["refused"] == 1
    gate.opened.set()


@pytest.mark.parametrize(
    ("limit", "visitors", "others", "said"),
    [
        ("heavy_per_session", [("a",)] * 3, [("b",), ("",), ("",), ("",)], "2 heavy jobs"),
        (
            "heavy_per_address",
            [(session, "8.8.8.8") for session in "abc"],
            [("d", "9.9.9.9"), ("e", None)],
            "2 heavy jobs of your address",
        ),
    ],
)
def test_a_session_has_its_own_limit(limit, visitors, others, said):
    """So has an address, which leaves the queue to others."""
    jobs, gate = one_at_a_time(**{limit: 2}), Gate()
    first, second, third = visitors
    jobs.ask(gate.work, *first)
    waiting = jobs.ask(Work("second", lambda tell: None), *second)
    with pytest.raises(JobError, match=said):
        jobs.ask(Work("third", lambda tell: None), *third)
    for number, other in enumerate(others):
        jobs.ask(Work(("of another", number), lambda tell: None), *other)
    waiting.leave()
    jobs.ask(Work("third", lambda tell: None), *third)
    gate.opened.set()


def test_a_full_queue_says_when_its_first_job_leaves_and_not_its_last():
    now = [0.0]
    limits = Settings(heavy_running=1, heavy_waiting=3, heavy_seconds=240)
    jobs, gate = Jobs(limits, clock=lambda: now[0]), Gate(seconds=7_000)
    jobs.ask(gate.work, "a")
    for name in "bcd":
        jobs.ask(Work(name, lambda tell: None, seconds=7_000), name)
    with pytest.raises(JobError, match="about 4 min"):
        jobs.ask(Work("e", lambda tell: None), "e")
    now[0] = 120.0
    with pytest.raises(JobError, match="about 2 min"):
        jobs.ask(Work("e", lambda tell: None), "e")
    gate.opened.set()


def test_a_job_that_takes_too_long_is_ended_with_a_sentence():
    jobs, gate = one_at_a_time(heavy_seconds=0.05), Gate()
    with pytest.raises(JobError, match=r"0\.05 s"):
        jobs.do(gate.work, "a", quiet)
    assert gate.ended.is_set() and jobs.figures()["failed"] == 1


def test_equal_work_does_not_join_a_job_that_is_being_ended_for_its_time():
    jobs, dying, over = one_at_a_time(heavy_seconds=0.05), threading.Event(), threading.Event()
    calls = []

    def ends_slowly(tell):
        calls.append(None)
        if len(calls) > 1:
            return "anew"
        try:
            while True:
                tell()
        finally:
            dying.set()
            assert over.wait(LONG)

    late = jobs.ask(Work("slow", ends_slowly), "a")
    assert dying.wait(LONG)
    again = jobs.ask(Work("slow", ends_slowly), "b")
    over.set()
    assert again.result(quiet) == "anew"
    with pytest.raises(JobError, match="more than"):
        late.result(quiet)


def test_where_no_process_can_be_started_the_work_is_done_here(monkeypatch):
    def fails(*args, **options):
        raise OSError("no more processes")

    monkeypatch.setattr(child_process, "start", fails)
    call = Call(partial(import_for, "json", False))
    assert one_at_a_time().do(Work("a", lambda tell: "here", call), "a", quiet) == "here"


def test_only_our_own_functions_go_to_another_process():
    with pytest.raises(ValueError, match=r"os is no module|posix is no module"):
        Call(partial(os.system, "true"))


def test_order_take_of_an_earlier_round_leaves_later_arrivals_behind_those_who_wait():
    order = FairQueue()
    for thing, session in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        order.add(thing, session)
    for thing in ("a1", "a2"):  # out of turn, as short work passes what is heavy
        order.take(thing)
    order.add("c1", "c")
    order.take("b1")
    order.add("d1", "d")
    order.add("a3", "a")
    assert list(order) == ["c1", "d1", "a3"]
