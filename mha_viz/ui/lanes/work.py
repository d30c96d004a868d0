"""Heavy work as a page asks for it, and a place in the queue as a page is told of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from mha_viz.ui.lanes.calls import Call

# A process that has to be started and to import torch and transformers needs five or six seconds,
# with torch alone one and a half. What takes less runs in a thread of the server, in one thread of
# torch, and in a place of its own beside the heavy jobs: so all of the shipped models, whose users
# would notice nothing but the wait.
SHORT = 3.0


@dataclass(frozen=True)
class Work:
    """Some heavy work, and both ways to do it.

    Args:
        key: equal of requests that have the same result: they are computed once.
        here: does it in a thread of this process; called with what it tells how far it is.
        there: does it in another process; None where it must be done here.
        seconds: how long it will take, about; None where nobody knows.
        patient: nobody waits at a page for it to go on: it lets others go first. Done here only.
    """

    key: Hashable
    here: Callable[[Callable[..., None]], Any]
    there: Call | None = None
    seconds: float | None = None
    patient: bool = False

    @property
    def short(self) -> bool:
        """Whether no process would be worth its start."""
        return self.seconds is not None and self.seconds < SHORT


class Waiting(NamedTuple):
    """A place in the queue: how many jobs come before, and how many seconds that may take."""

    before: int
    seconds: float
