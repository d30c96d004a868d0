"""Who has a place on this server: as many open pages as it has room for, and the rest wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mha_viz.ui.operating import ceiling
from mha_viz.ui.operating.refusals import refused
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.session.memory import STAYS


class Places:
    """Sessions that are let in, in the order in which they came.

    Args:
        most: how many; None is any number.
        is_there: whether a session's page is open.
        no_room: whether nobody new is let in, however many places are free.
        clock: seconds that pass.
    """

    def __init__(
        self,
        most: int | None,
        is_there: Callable[[str], bool],
        no_room: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self._is_there, self._no_room = most, is_there, no_room
        self._clock = clock
        self._held: dict[str, float | None] = {}  # since when its page is not there
        self._lock = threading.Lock()

    def take(self, session: str) -> bool:
        """Whether a session has a place, from before or from now on."""
        with self._lock:
            self._look(session)
            if session in self._held:
                return True
            if self._no_room() or (self.most is not None and len(self._held) >= self.most):
                return False
            self._held[session] = None
            return True

    def _look(self, here: str) -> None:
        """Give up the places of pages that were closed, and not of a connection that broke."""
        now = self._clock()
        for session, since in list(self._held.items()):
            if session == here or self._is_there(session):
                self._held[session] = None
            elif since is None:
                self._held[session] = now
            elif now - since > STAYS:
                del self._held[session]


def has_place() -> bool:
    """Whether the page that runs may be drawn."""
    context = get_script_run_ctx()
    return context is None or _places().take(context.session_id)


def full() -> str:
    """Count a page that is not drawn; what to say in its place."""
    return str(
        refused(
            "session",
            "This server is full: as many people are using it as it has room for. This page opens "
            "by itself as soon as there is a place.",
        )
    )


@cache
def _places() -> Places:
    return Places(settings().max_sessions, _is_there, ceiling.is_over)


def _is_there(session: str) -> bool:
    # Where there is no server (a test of one page), nobody leaves.
    return not runtime.exists() or runtime.get_instance().get_app_session(session) is not None
