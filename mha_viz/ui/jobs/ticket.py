"""Heavy work as a page requests it, its job in the lane, and the ticket of a page that waits."""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mha_viz.ui.jobs.calls import Call, Cancelled, CancelToken

# A process that has to be started and to import torch and transformers needs five or six seconds,
# with torch alone one and a half. What takes less runs in a thread of the server, in one thread of
# torch, and in a place of its own beside the heavy jobs: so all of the shipped models, whose users
# would notice nothing but the wait.
SHORT_SECONDS = 3.0


@dataclass(frozen=True)
class Work:
    """Heavy work, and both ways to do it."""

    key: Hashable  # equal of requests that have the same result: they are computed once
    run_here: Callable[
        [Callable[..., None]], Any
    ]  # in this process, with a callback for its progress
    call: Call | None = None  # in another process; None where it must be done here
    seconds: float | None = None  # how long it will take, about; None where nobody knows
    patient: bool = False  # nobody waits at a page: it lets others go first. Done here only

    @property
    def short(self) -> bool:
        """True if the work takes less time than the start of a process."""
        return self.seconds is not None and self.seconds < SHORT_SECONDS


class Waiting(NamedTuple):
    """A place in the queue: how many jobs come before, and how many seconds that may take."""

    before: int
    seconds: float


OnProgress = Callable[[Waiting | tuple[Any, ...]], float | None]
POLL_SECONDS = 0.2  # between two checks of a job and of those who wait for it


@dataclass(eq=False)
class Job:
    """Work in the lane, read and changed under the lane's lock only."""

    work: Work  # to be done
    changed: threading.Condition  # notified when it goes on or has ended
    address: str | None = None  # from which it was asked for first; None is one of many
    waits: "list[Ticket]" = field(default_factory=list)  # those who wait for it
    stop: CancelToken = field(default_factory=CancelToken)  # given once nobody waits any more
    runs: bool = False  # whether it has its turn
    began: float | None = None  # when its latest turn did; None where it had none
    worked: float = 0.0  # seconds of the turns before that
    progress: tuple[Any, ...] = ()  # as the work reported it last
    # done so far, in [0, 1], as a waiting page read it from the progress
    share: float = 0.0
    ended: bool = False  # whether there is a result or an error
    late: bool = False  # whether it was stopped for taking too long
    result: Any = None
    error: BaseException | None = None
    clock: Callable[[], float] = time.monotonic

    @property
    def lasts(self) -> float:
        """Seconds of its present turn."""
        return 0.0 if self.began is None else self.clock() - self.began

    def remaining(self, expected: float) -> float:
        """Estimate the remaining seconds, by its progress or else of those `expected` in all."""
        if self.share > 0:
            return self.lasts * max(1 - self.share, 0.0) / self.share
        return max(expected - self.lasts, 1.0)


class Ticket:
    """The ticket of a page that waits for a job."""

    def __init__(
        self,
        job: Job,
        session: str,
        waiting_of: Callable[[Job], Waiting | None],  # where the job is in the queue
        leave: "Callable[[Ticket, Job], None]",  # called when a page stops waiting
    ) -> None:
        self._job, self.session, self._waiting, self._leave = job, session, waiting_of, leave

    @property
    def ended(self) -> bool:
        """True once there is a result or an error."""
        return self._job.ended

    @property
    def error(self) -> BaseException | None:
        """The error in place of a result; None where the job was stopped."""
        error = self._job.error
        return None if isinstance(error, Cancelled) else error

    @property
    def waiting(self) -> Waiting | None:
        """The place in the queue; None where the job runs, or has ended."""
        return self._waiting(self._job)

    def leave(self) -> None:
        """Wait no more; the job ends if nobody else waits for it."""
        self._leave(self, self._job)

    def can_be_joined(self, session: str) -> bool:
        """Return whether others wait for the job, and that session does not yet."""
        sessions = {ticket.session for ticket in tuple(self._job.waits)}
        return bool(sessions) and session not in sessions

    def stop(self) -> None:
        """End the job for all who wait for it."""
        for ticket in tuple(self._job.waits):
            ticket.leave()

    def wait(self, on_progress: OnProgress = lambda news: None) -> None:
        """Wait until the job has ended.

        `on_progress` is called now and then with the place in the queue, or with the progress of
        the job; it returns the share that is done, where it knows.
        """
        while not self._job.ended:
            share = on_progress(self.waiting or self._job.progress)
            with self._job.changed:
                self._job.share = share or self._job.share
                if not self._job.ended:
                    self._job.changed.wait(POLL_SECONDS)

    def result(self, on_progress: OnProgress) -> Any:
        """Wait for the result of the job and return it.

        `on_progress` is as of `wait`; what it raises passes to who called, who has left then.
        Raises MhaVizError: the job's own error; JobError where it took too long or its process
        ended.
        """
        try:
            self.wait(on_progress)
        finally:
            self.leave()
        if self._job.error is not None:
            raise self._job.error
        return self._job.result
