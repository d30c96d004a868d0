"""Places on this server: as many open pages as fit, while the others wait."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mha_viz.ui.operating import memory_limit, streamlit_run
from mha_viz.ui.operating.refusals import refused
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import memory

OPENING = 3.0  # seconds in which a page runs by itself; whoever runs it later has done something


@dataclass
class _Place:
    """A place that a session has, whose page may have lost its connection."""

    address: str | None
    taken: float
    acted: bool = False
    left: float | None = None  # since when its page is not there


class Places:
    """Sessions that were let in, in the order in which they came."""

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
        self._held: dict[str, _Place] = {}
        self._lock = threading.RLock()

    def take(self, session: str, address: str | None = None) -> bool:
        """Return whether a session has a place, from before or from now on.

        `address` is where its visitor is; None where others may have the same.
        """
        with self._lock:
            self._look(session)
            now = self._clock()
            if held_place := self._held.get(session):
                held_place.acted = held_place.acted or now - held_place.taken > OPENING
                return True
            if self._no_room() or self.has_most(address):
                return False
            if self.most is not None and len(self._held) >= self.most and not self._give_way():
                return False
            self._held[session] = _Place(address, now)
            return True

    def has_most(self, address: str | None) -> bool:
        """Return whether an address has as many places as one may."""
        if address is None or self._of_one is None:
            return False
        with self._lock:
            return (
                sum(held_place.address == address for held_place in self._held.values())
                >= self._of_one
            )

    def _look(self, session_now: str) -> None:
        """Give up the places of pages that were closed, and not of a connection that broke.

        Who has done nothing on a page loses nothing with it: its place is free at once.
        """
        now = self._clock()
        for session, held_place in list(self._held.items()):
            if session == session_now or self._is_there(session):
                held_place.left = None
            elif held_place.acted and held_place.left is None:
                held_place.left = now
            elif held_place.left is None or now - held_place.left > memory.STAYS:
                del self._held[session]

    def _give_way(self) -> bool:
        """Give up the place of the page that was opened first and never used, if there is one.

        It stays as it is. Whoever uses it then takes a place in the same way.
        """
        for session, held_place in self._held.items():
            if not held_place.acted and self._clock() - held_place.taken > OPENING:
                del self._held[session]
                return True
        return False


def has_place() -> bool:
    """Return whether the page that runs may be drawn."""
    session = streamlit_run.session_id()
    if session is None:
        return True
    memory.visitor()  # so that the end of the session is heard, of one without a place as well
    return _places().take(session, streamlit_run.visitor_address())


def full() -> str:
    """Count a page that is not drawn; what to say in its place."""
    if _places().has_most(streamlit_run.visitor_address()):
        return str(refused("address", most=settings().sessions_per_address))
    return str(refused("session"))


@cache
def _places() -> Places:
    most, of_one = settings().max_sessions, settings().sessions_per_address
    return Places(most, streamlit_run.is_kept, memory_limit.is_over, of_one=of_one)
