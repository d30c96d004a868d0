"""A job of the lane, and what each of those who wait for it has in hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mha_viz.ui.lanes.stop import Stop, Stopped
from mha_viz.ui.lanes.work import Waiting, Work

if TYPE_CHECKING:
    from mha_viz.ui.lanes.jobs import Jobs

Told = Callable[[Waiting | tuple[Any, ...]], float | None]
LOOK = 0.2  # seconds between two looks at how far a job is, and whether somebody still waits


@dataclass(eq=False)
class Job:
    """Work in the lane. All of it is read and changed under the lane's lock.

    Args:
        work: to be done.
        changed: notified when it goes on or has ended.
        waits: those who wait for it.
        stop: given once nobody waits any more.
        runs: whether it has its turn.
        began: when its latest turn did; None where it had none.
        worked: seconds of the turns before that.
        told: how far it is.
        share: how much of it is done, as one who waits for it understood what it told; else 0.
        ended: whether there is a result or an error.
        late: whether it was stopped for taking too long.
    """

    work: Work
    changed: threading.Condition
    waits: list[Ticket] = field(default_factory=list)
    stop: Stop = field(default_factory=Stop)
    runs: bool = False
    began: float | None = None
    worked: float = 0.0
    told: tuple[Any, ...] = ()
    share: float = 0.0
    ended: bool = False
    late: bool = False
    result: Any = None
    error: BaseException | None = None
    clock: Callable[[], float] = time.monotonic

    @property
    def lasts(self) -> float:
        """Seconds of its present turn."""
        return 0.0 if self.began is None else self.clock() - self.began

    def left(self, expected: float) -> float:
        """Estimate the seconds that it still takes: by what it has done, where that is known.

        Args:
            expected: seconds of all of it, as they were estimated before it began.
        """
        if self.share > 0:
            return self.lasts * max(1 - self.share, 0.0) / self.share
        return max(expected - self.lasts, 1.0)


class Ticket:
    """What one who waits for a job has in hand.

    Args:
        jobs: that it is one of.
        job: that is waited for.
        session: of who waits.
    """

    def __init__(self, jobs: Jobs, job: Job, session: str) -> None:
        self._jobs, self._job, self.session = jobs, job, session

    @property
    def ended(self) -> bool:
        """Whether there is a result or an error."""
        return self._job.ended

    @property
    def error(self) -> BaseException | None:
        """Why there is no result; None where it was stopped."""
        error = self._job.error
        return None if isinstance(error, Stopped) else error

    @property
    def waiting(self) -> Waiting | None:
        """The place in the queue; None where the job runs, or has ended."""
        return self._jobs.place(self._job)

    def leave(self) -> None:
        """Wait no more; the job ends if nobody else waits for it."""
        self._jobs.leave(self, self._job)

    def wait(self, told: Told = lambda news: None) -> None:
        """Until the job has ended.

        Args:
            told: called now and then, with the place in the queue or with what the job told last;
                returns the share of the job that is done, where it knows.
        """
        while not self._job.ended:
            share = told(self.waiting or self._job.told)
            with self._job.changed:
                self._job.share = share or self._job.share
                if not self._job.ended:
                    self._job.changed.wait(LOOK)

    def result(self, told: Told) -> Any:
        """What the job found, once it is there.

        Args:
            told: as of `wait`. What it raises passes to who called, who has left then.

        Raises:
            MhaVizError: the job's own error; JobError where it took too long or its process ended.
        """
        try:
            self.wait(told)
        finally:
            self.leave()
        if self._job.error is not None:
            raise self._job.error
        return self._job.result
