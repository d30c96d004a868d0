"""Lane of heavy work: a few jobs at a time, and a fair turn for each session.

A page waits in its own thread and hears how far its job is. An exception that it raises there (a
newer click, a page that was left) ends the job, unless another page waits for the same one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, Generic, TypeVar

import psutil

from mha_viz.core.cancellation import cancellation
from mha_viz.core.reprs import count
from mha_viz.errors import JobError
from mha_viz.ui.jobs.calls import Cancelled
from mha_viz.ui.jobs.child_process import start_timer
from mha_viz.ui.jobs.process import NoProcessError, Workers
from mha_viz.ui.jobs.ticket import Job, OnProgress, Ticket, Waiting, Work
from mha_viz.ui.jobs.turns import turns
from mha_viz.ui.operating.settings import Settings, settings

T = TypeVar("T")
FOR_EVER = threading.TIMEOUT_MAX
PATIENT_TURN_SECONDS = 5.0  # of patient work before it yields to other work
USUAL_SECONDS = 30.0  # expected of a job of unknown length


class FairQueue(Generic[T]):
    """Waiting things in the order of their turns.

    Every request of a session goes one round later than its last one. So the first of each session
    come before the second of any, in the order of arrival, and nobody waits for ever: who comes
    later begins no earlier than in the round that has its turn.

    >>> order = FairQueue()
    >>> for request, session in ("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"):
    ...     order.add(request, session)
    >>> list(order)
    ['a1', 'b1', 'c1', 'a2', 'a3']
    """

    def __init__(self) -> None:
        self._round = 0  # that has its turn
        self._had: dict[str, int] = {}  # session -> the round of its latest turn
        self._waits: dict[T, tuple[int, str]] = {}  # in the order of arrival

    def add(self, item: T, session: str) -> None:
        """Add a thing, or give one that waits another session's turn if it is sooner."""
        turns = [turn for turn, who in self._waits.values() if who == session]
        turn = max(self._round, *(1 + before for before in (self._had.get(session, -1), *turns)))
        if item not in self._waits or turn < self._waits[item][0]:
            self._waits[item] = (turn, session)

    def take(self, item: T) -> None:
        """Remove a thing whose turn has come."""
        turn, session = self._waits.pop(item)
        self._round, self._had[session] = max(self._round, turn), turn
        # Whose latest turn was in an earlier round is as good as new.
        self._had = {who: turn for who, turn in self._had.items() if turn >= self._round}

    def remove(self, item: T) -> None:
        """Remove a thing that waits no more."""
        self._waits.pop(item)

    def __iter__(self) -> Iterator[T]:
        return iter(sorted(self._waits, key=lambda item: self._waits[item][0]))

    def __len__(self) -> int:
        return len(self._waits)


class Jobs:
    """Lane of heavy work: running and waiting jobs, in the order of their turns."""

    def __init__(
        self,
        limits: Settings,
        workers: Workers | None = None,  # made by the limits where none are given
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits, self._clock = limits, clock
        processors = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
        self.most = limits.heavy_running or max(1, (processors or 2) // 2)
        # Of torch, in each process: what processors there are for it.
        self.threads = max(1, (processors or 2) // self.most)
        machine, limit_mb = int(psutil.virtual_memory().total), limits.memory_mb
        worker_bytes = machine if limit_mb is None else limit_mb * 10**6
        self.workers = workers or Workers(self.most, worker_bytes)
        self._lock = threading.RLock()
        self._jobs: dict[Hashable, Job] = {}  # that can be joined
        self._order: FairQueue[Job] = FairQueue()
        self._running: set[Job] = set()
        self._most_seconds = limits.heavy_seconds or FOR_EVER
        self._usual = USUAL_SECONDS
        self._counts = dict.fromkeys(("done", "failed", "cancelled", "refused", "seconds"), 0.0)

    def ask(self, work: Work, session: str, address: str | None = None) -> Ticket:
        """Put a job into the queue, or join those who wait for the same one; returns at once.

        `session` is who asks; "" is the server itself, for all visitors. `address` is where the
        visitor is, None for one of many. Raises JobError: the server, the visitor or the address
        has enough of them.
        """
        with self._lock:
            job = self._jobs.get(work.key)
            if job is None:
                self._check_queue_limit()
                self._check_session_limit(session)
                self._check_address_limit(address)
                changed = threading.Condition(self._lock)
                job = self._jobs[work.key] = Job(work, changed, address=address, clock=self._clock)
                job.stop.add_callback(partial(self._notify, job))
            ticket = Ticket(job, session, self.waiting, self.leave)
            job.waits.append(ticket)
            if job.began is None:
                self._order.add(job, session)
            self._start_next()
            return ticket

    def do(self, work: Work, session: str, on_progress: OnProgress) -> Any:
        """Return the result of work: `ask`, then wait as `Ticket.result` does."""
        return self.ask(work, session).result(on_progress)

    def leave(self, ticket: Ticket, job: Job) -> None:
        """Remove the ticket of a page that waits no more."""
        with self._lock:
            if ticket in job.waits:
                job.waits.remove(ticket)
            if job.waits or job.ended or job.stop.is_set:
                return
            self._forget(job)
            if job.began is None:
                self._order.remove(job)
                self._end(job)
                self._counts["cancelled"] += 1
        job.stop.set()  # outside the lock: it speaks with a process

    def leave_all(self, session: str) -> None:
        """Remove an ended session from all jobs that it waits for."""
        with self._lock:
            every = [*self._running, *self._order]
            of_session = [
                (waiting, job)
                for job in every
                for waiting in job.waits
                if waiting.session == session
            ]
        for ticket, job in of_session:
            self.leave(ticket, job)

    def waiting(self, job: Job) -> Waiting | None:
        """Return the place of a job in the queue."""
        with self._lock:
            if job.runs or job.ended:
                return None
            same = [
                job_ahead for job_ahead in self._order if job_ahead.work.short == job.work.short
            ]
            first = same[: same.index(job)]
            running = [
                job_ahead for job_ahead in self._running if job_ahead.work.short == job.work.short
            ]
            ahead = sum(map(self._remaining, running)) + sum(map(self._expected, first))
            return Waiting(len(first) + 1, ahead / self.most)

    def figures(self) -> dict[str, float]:
        """Return numbers of running and waiting jobs, and of all by their ends, with seconds."""
        with self._lock:
            now = {"running": float(len(self._running)), "waiting": float(len(self._order))}
            return now | self._counts

    # -- inside, under the lock --------------------------------------------------------------------

    def _check_queue_limit(self) -> None:
        most, waiting = self.limits.heavy_waiting, len(self._order)
        if most is not None and waiting >= most and len(self._running) >= self.most:
            self._counts["refused"] += 1
            soonest = min(map(self._remaining, self._running))  # then one leaves the queue
            raise JobError(
                f"{count(waiting, 'heavy job')} in the queue, and this server takes no more: try "
                f"again in about {max(1, round(soonest / 60))} min."
            )

    def _check_session_limit(self, session: str) -> None:
        most = self.limits.heavy_per_session
        every = [*self._running, *self._order]
        n_jobs = sum(any(each.session == session for each in job.waits) for job in every)
        if session and most is not None and n_jobs >= most:
            self._counts["refused"] += 1
            raise JobError(
                f"You have {count(n_jobs, 'heavy job')} running or waiting, and this server takes "
                "no more of one visitor: stop one, or wait until it is done."
            )

    def _check_address_limit(self, address: str | None) -> None:
        most = self.limits.heavy_per_address
        n_jobs = sum(job.address == address for job in (*self._running, *self._order))
        if address is not None and most is not None and n_jobs >= most:
            self._counts["refused"] += 1
            raise JobError(
                f"{count(n_jobs, 'heavy job')} of your address running or waiting, and this server "
                "takes no more of one address: stop one, or wait until it is done."
            )

    def _remaining(self, job: Job) -> float:
        return min(job.remaining(self._expected(job)), max(self._most_seconds - job.lasts, 1.0))

    def _expected(self, job: Job) -> float:
        if job.work.patient:
            return PATIENT_TURN_SECONDS
        seconds = self._usual if job.work.seconds is None else job.work.seconds
        return min(seconds, self._most_seconds)

    def _start_next(self) -> None:
        for short in (True, False):
            running = sum(job.work.short == short for job in self._running)
            for job in [job for job in self._order if job.work.short == short]:
                if running >= self.most:
                    break
                self._order.take(job)
                goes_on = job.began is not None
                job.began, job.runs = self._clock(), True
                self._running.add(job)
                running += 1
                if goes_on:
                    job.changed.notify_all()
                else:
                    threading.Thread(target=self._run, args=(job,), daemon=True).start()

    def _forget(self, job: Job) -> None:
        """Let nobody join a job any more."""
        if self._jobs.get(job.work.key) is job:
            del self._jobs[job.work.key]

    def _end(self, job: Job) -> None:
        """Wake those who wait, and release models and texts, because tickets may be kept."""
        self._forget(job)
        job.runs, job.ended = False, True
        job.work = replace(job.work, run_here=_nothing, call=None)
        job.changed.notify_all()

    def _notify(self, job: Job) -> None:
        with self._lock:
            job.changed.notify_all()

    # -- inside, in the job's own thread -----------------------------------------------------------

    def _run(self, job: Job) -> None:
        most = FOR_EVER if job.work.patient else self._most_seconds
        timer = start_timer(most, self._late, job)
        try:
            job.result, how = self._computed(job), "done"
        except Cancelled:
            how = "failed" if job.late else "cancelled"
            job.error = self._too_long() if job.late else Cancelled()
        except BaseException as error:  # shown on the waiting page
            how, job.error = "failed", error
        timer.cancel()
        with self._lock:
            self._counts[how] += 1
            seconds = job.worked + job.lasts
            self._counts["seconds"] += seconds
            if how == "done" and job.work.seconds is None:
                self._usual += (seconds - self._usual) / 4
            self._running.discard(job)
            self._end(job)
            self._start_next()

    def _computed(self, job: Job) -> Any:
        def on_progress(*values: Any) -> None:
            job.progress = values  # waiting pages poll it

        if job.work.call is not None and not job.work.short:
            try:
                return self.workers.run(job.work.call, job.stop, on_progress)
            except NoProcessError:  # here, then: slower for those who click, but done
                pass

        def look() -> None:
            if job.work.patient:
                self._let_others_go_first(job)
                if job.worked + job.lasts > self._most_seconds:
                    self._late(job)
            job.stop.raise_if_set()

        def tell(*values: Any) -> None:
            look()
            on_progress(*values)

        with cancellation(look):
            return job.work.run_here(tell)

    def _let_others_go_first(self, job: Job) -> None:
        """Pause patient work while others have a turn, then give it one again."""
        with self._lock:
            heavy = any(not waiting_job.work.short for waiting_job in self._order)
            if not heavy or job.lasts < PATIENT_TURN_SECONDS or job.stop.is_set:
                return
            job.worked, job.runs = job.worked + job.lasts, False
            self._running.discard(job)
            self._order.add(job, job.waits[0].session)
            self._start_next()
            job.changed.wait_for(lambda: job.runs or job.stop.is_set)
            if not job.runs:  # stopped: it goes on only to end
                self._order.remove(job)
                job.began, job.runs = self._clock(), True
                self._running.add(job)

    def _late(self, job: Job) -> None:
        with self._lock:
            job.late = True
            self._forget(job)  # an equal one begins anew, and does not end with this
        job.stop.set()

    def _too_long(self) -> JobError:
        return JobError(
            f"This took more than {self.limits.heavy_seconds:g} s, which is as long as a job may "
            "take on this server: give fewer or shorter texts, or run it on a machine of your own."
        )


def _nothing(tell: Callable[..., None]) -> None:
    """Do nothing, in place of work that has ended."""


@cache
def jobs() -> Jobs:
    """Return the lane of this server."""
    queue = Jobs(settings())
    turns.tell(queue.workers.set_paused)
    return queue


def figures() -> dict[str, float]:
    """Return figures of this server's lane; they do not tell who asked for what."""
    return jobs().figures()
