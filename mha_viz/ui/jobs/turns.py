"""Lanes of the pages' own threads: short work first, long work alone, and nobody starves.

Fifty threads at once finish late, all of them. A few at a time, in the order they came, finish the
first soon and the last no later.
"""

import os
import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

OnProgress = Callable[[int], object]
MAX_PAUSE_SECONDS = 5.0  # of one pause of work that yields
POLL_SECONDS = 0.2  # between two checks whether somebody still waits
YIELD_SECONDS = 2.0  # by which low-priority work yields to newer requests
ADDRESS_DELAY_SECONDS = 1.0  # added to each further run of one address


def _nothing(before: int) -> None:
    """Ignore the number of requests that come first."""


@dataclass(order=True)
class _Request:
    """A request for a turn; the earlier goes first."""

    since: float
    number: int
    who: str | None = field(default=None, compare=False)
    granted: threading.Event = field(default_factory=threading.Event, compare=False)


class Lane:
    """A lane with so many turns at a time; others wait, and hear how many come before them.

    The end of a turn gives it to the first in the queue, and wakes nobody else. One address leaves
    a turn to others, where there is more than one.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._lock = threading.Lock()
        self._queue: list[_Request] = []
        self._running: Counter[str | None] = Counter()  # by address
        self._numbers = self._turns = 0
        self._waited = 0.0

    def take(
        self, on_progress: OnProgress = _nothing, later: float = 0.0, who: str | None = None
    ) -> None:
        """Wait for a turn, which `end` gives back.

        `on_progress` is called now and then with the number of those who come before; what it
        raises gives the place up. Those who come less than `later` seconds later may go first.
        `who` is the address that asks, None where others may have the same: of those who wait from
        one address each stands a second behind the one before.
        """
        begin = time.monotonic()
        with self._lock:
            self._numbers += 1
            self._turns += 1
            same = [
                turn_ahead.since
                for turn_ahead in self._queue
                if who is not None and turn_ahead.who == who
            ]
            since = max([begin + later, *(last + ADDRESS_DELAY_SECONDS for last in same)])
            turn = _Request(since, self._numbers, who)
            insort(self._queue, turn)
            self._grant()
        try:
            while not turn.granted.wait(POLL_SECONDS):
                with self._lock:
                    before = self._queue.index(turn) if turn in self._queue else 0
                on_progress(before)
        except BaseException:  # Streamlit ends a run by what is no Exception
            self._give_up(turn)
            raise
        with self._lock:
            self._waited += time.monotonic() - begin

    def end(self, who: str | None = None) -> None:
        """Give a turn back, taken with the same `who`: to the first who waits."""
        with self._lock:
            self._running -= Counter([who])
            self._grant()

    @property
    def running(self) -> int:
        """Number of turns that are taken."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """Number of those who wait for a turn."""
        return len(self._queue)

    def figures(self) -> dict[str, float]:
        """Return present turns and waits, all turns so far, and the seconds waited."""
        with self._lock:
            now = {"running": float(self.running), "waiting": float(len(self._queue))}
            return now | {"turns": float(self._turns), "seconds_waited": self._waited}

    def _grant(self) -> None:
        """Give free turns to those who wait and may have one; the lock is held."""
        most = max(1, self.at_once - 1)
        for turn in tuple(self._queue):
            if self.running == self.at_once:
                return
            if turn.who is None or self._running[turn.who] < most:
                self._queue.remove(turn)
                self._running[turn.who] += 1
                turn.granted.set()

    def _give_up(self, turn: _Request) -> None:
        with self._lock:
            if turn in self._queue:
                self._queue.remove(turn)
                return
        self.end(turn.who)  # it was granted meanwhile


class _ThreadTurn(threading.local):
    """The turn of the calling thread, or the lane that it has left for a while."""

    runs = 0  # of a page, and of a part of it inside
    who: str | None = None
    lane: Lane | None = None


class Turns:
    """The short and the long lane of a server, and the lane of each of its threads.

    `at_once` is the number of short turns at a time: None is one for each processor. What
    `on_progress` and `who` are, `Lane.take` says.
    """

    def __init__(self, at_once: int | None = None) -> None:
        self.short = Lane(at_once or os.cpu_count() or 2)
        self.long = Lane(1)
        self._thread = _ThreadTurn()
        self._changed = threading.Condition()
        self._under_way = 0
        self._listeners: list[Callable[[bool], object]] = []

    @contextmanager
    def run(self, on_progress: OnProgress = _nothing, who: str | None = None) -> Iterator[None]:
        """Hold a turn during a run of a page or of its part; an inner run shares the turn."""
        thread_turn = self._thread
        if thread_turn.runs:
            thread_turn.runs += 1
            try:
                yield
            finally:
                thread_turn.runs -= 1
            return
        thread_turn.runs, thread_turn.who = 1, who
        self._count(1)
        try:
            self._enter(self.short, on_progress)
            yield
        finally:
            self._leave()
            thread_turn.runs, thread_turn.who = 0, None
            self._count(-1)

    @contextmanager
    def release_slot(self, on_progress: OnProgress = _nothing) -> Iterator[None]:
        """Release the turn during a wait for other work, to which nothing else yields meanwhile.

        A wait that ends by an exception continues without a turn.
        """
        lane = self._leave()
        with self._uncounted(lane):
            yield
        if lane is not None:
            self._enter(lane, on_progress)

    def requeue(self, on_progress: OnProgress = _nothing) -> None:
        """Let those who have just come go before the rest of this run."""
        if self.short.waiting and self._leave() is not None:
            self._enter(self.short, on_progress, YIELD_SECONDS)

    @contextmanager
    def long_work(self, on_progress: OnProgress = _nothing) -> Iterator[None]:
        """Hold the long lane during work of seconds, and leave the short one to others."""
        before = self._leave()
        with self._uncounted(before):
            self._enter(self.long, on_progress)
            try:
                yield
            finally:
                self._leave()
        if before is not None:
            self._enter(before, on_progress)

    def tell(self, listener: Callable[[bool], object]) -> None:
        """Call a quick listener with whether pages are run, now and whenever that changes."""
        with self._changed:
            self._listeners.append(listener)
            listener(self._under_way > 0)

    def wait_until_idle(self, seconds: float) -> None:
        """Return once no page is run, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, seconds)

    @property
    def under_way(self) -> int:
        """Runs of pages that compute, or wait for their turn."""
        return self._under_way

    def figures(self) -> dict[str, dict[str, float]]:
        """Return `Lane.figures` by lane."""
        return {"short": self.short.figures(), "long": self.long.figures()}

    def _enter(self, lane: Lane, on_progress: OnProgress, later: float = 0.0) -> None:
        lane.take(on_progress, later, self._thread.who)
        self._thread.lane = lane

    def _leave(self) -> Lane | None:
        lane, self._thread.lane = self._thread.lane, None
        if lane is not None:
            lane.end(self._thread.who)
        return lane

    @contextmanager
    def _uncounted(self, lane: Lane | None) -> Iterator[None]:
        """Exclude a run that has left the short lane from those that others yield to."""
        if lane is not self.short:
            yield
            return
        self._count(-1)
        try:
            yield
        finally:
            self._count(1)

    def _count(self, change: int) -> None:
        with self._changed:
            before = self._under_way > 0
            self._under_way += change
            now = self._under_way > 0
            for listener in self._listeners if now != before else ():
                listener(now)
            self._changed.notify_all()


turns = Turns()


class CooperativeYield:
    """A call between two blocks of some work that returns once no page is run.

    It stands still for no longer than it has worked since, so that it comes to its end at half its
    speed however many pages are run. `wait` returns once no page is run, or after so many seconds.
    """

    def __init__(self, wait: Callable[[float], object] = turns.wait_until_idle) -> None:
        self._wait, self._owes, self._went_on = wait, MAX_PAUSE_SECONDS, time.monotonic()

    def __call__(self) -> None:
        """Pause while a page is run."""
        stopped = time.monotonic()
        self._owes = min(MAX_PAUSE_SECONDS, self._owes + stopped - self._went_on)
        self._wait(self._owes)
        self._went_on = time.monotonic()
        self._owes -= self._went_on - stopped
