"""Admission on this server: as many open pages as fit, while the others wait."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mha_viz.ui.operating import memory_limit, streamlit_run
from mha_viz.ui.operating.refusals import refused
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import memory

OPENING_SECONDS = 3.0  # of the runs of a page that no visitor caused


@dataclass
class _Visit:
    """An admitted session, whose page may have lost its connection."""

    address: str | None
    since: float
    acted: bool = False
    gone_since: float | None = None  # None while its page is open


class Admission:
    """Sessions with a place on this server, in the order in which they came."""

    def __init__(
        self,
        most: int | None,  # places; None is any number
        is_there: Callable[[str], bool],  # whether a session's page is open
        no_room: Callable[[], bool] = lambda: False,  # nobody new is let in, whatever is free
        clock: Callable[[], float] = time.monotonic,
        of_one: int | None = None,  # places of one address; None is any number
    ) -> None:
        self.most, self._is_there, self._no_room = most, is_there, no_room
        self._clock, self._of_one = clock, of_one
        self._visits: dict[str, _Visit] = {}
        self._lock = threading.RLock()

    def admit(self, session: str, address: str | None = None) -> bool:
        """Return whether a session has a place, from before or from now on.

        `address` is where its visitor is; None where others may have the same.
        """
        with self._lock:
            self._drop_closed(session)
            now = self._clock()
            if visit := self._visits.get(session):
                visit.acted = visit.acted or now - visit.since > OPENING_SECONDS
                return True
            if self._no_room() or self.is_address_full(address):
                return False
            if self.most is not None and len(self._visits) >= self.most and not self._drop_unused():
                return False
            self._visits[session] = _Visit(address, now)
            return True

    def is_address_full(self, address: str | None) -> bool:
        """Return whether an address has as many places as one may."""
        if address is None or self._of_one is None:
            return False
        with self._lock:
            return sum(visit.address == address for visit in self._visits.values()) >= self._of_one

    def _drop_closed(self, session_now: str) -> None:
        """Give up the places of pages that were closed, and not of a connection that broke.

        A page on which nobody has done anything loses its place at once.
        """
        now = self._clock()
        for session, visit in list(self._visits.items()):
            if session == session_now or self._is_there(session):
                visit.gone_since = None
            elif visit.acted and visit.gone_since is None:
                visit.gone_since = now
            elif visit.gone_since is None or now - visit.gone_since > memory.RECONNECT_SECONDS:
                del self._visits[session]

    def _drop_unused(self) -> bool:
        """Give up the place of the page that was opened first and never used, if there is one.

        It stays as it is. Whoever uses it then takes a place in the same way.
        """
        for session, visit in self._visits.items():
            if not visit.acted and self._clock() - visit.since > OPENING_SECONDS:
                del self._visits[session]
                return True
        return False


def is_admitted() -> bool:
    """Return whether the page that runs may be drawn."""
    session = streamlit_run.session_id()
    if session is None:
        return True
    memory.visitor()  # so that the end of the session is heard, of one without a place as well
    return _admission().admit(session, streamlit_run.visitor_address())


def refusal() -> str:
    """Count a page that is not drawn; what to say in its place."""
    if _admission().is_address_full(streamlit_run.visitor_address()):
        return str(refused("address", most=settings().sessions_per_address))
    return str(refused("session"))


@cache
def _admission() -> Admission:
    most, of_one = settings().max_sessions, settings().sessions_per_address
    return Admission(most, streamlit_run.is_kept, memory_limit.is_over, of_one=of_one)
