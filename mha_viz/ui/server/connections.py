"""Limits of one connection's memory and time, below the level of requests.

uvicorn closes a connection that is kept alive without a request, and nothing else: half a request,
half a message and an answer that nobody reads would stay for as long as the other end likes.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from streamlit import config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from mha_viz.ui.operating import descriptors, memory_limit
from mha_viz.ui.operating.settings import settings

MAX_MESSAGE = 2_000_000  # bytes from a browser, beside its texts
MAX_PENDING = 1_000_000  # bytes either way of one connection, beyond the memory ceiling
MAX_FRAGMENTS = 1_000  # of one message: empty ones have no size that could be limited
MAX_CONNECTIONS = 1_000
POLL_SECONDS = 0.5  # between two checks


class Wait(NamedTuple):
    """A wait for the other end of a connection, and its limit in seconds."""

    kind: str
    seconds: float
    turn: object = None  # which of several requests


REQUEST, BODY, MESSAGE, ANSWER, CLOSE = "request", "body", "message", "answer", "close"
SECONDS = {REQUEST: 10.0, BODY: 60.0, MESSAGE: 30.0, ANSWER: 300.0, CLOSE: 5.0}


@contextlib.asynccontextmanager
async def limited(server: Any) -> AsyncGenerator[None]:
    """Limit the connections of a uvicorn server that has not begun to listen.

    `server.config` is read again for each connection. Streamlit has one option for the largest
    message of both directions, and takes it before this app is imported. What a page sends is what
    the server computed (19 MB for 144 heads and 256 tokens); what it takes was typed.
    """
    most = descriptors.limit() or descriptors.MAX_DESCRIPTORS
    # So many are accepted at a time, before any is closed for them.
    server.config.backlog = min(server.config.backlog, most // 8)
    server.config.ws_max_size = largest_message()
    if isinstance(server.config.loaded_app, ProxyHeadersMiddleware):
        # It believes whoever connects from this machine; ours asks the settings.
        server.config.loaded_app = server.config.loaded_app.app
    limits = Limits(server.server_state.connections, min(MAX_CONNECTIONS, most // 2))
    server.config.http_protocol_class = _noted(server.config.http_protocol_class, limits)
    keeping = asyncio.create_task(limits.keep())
    try:
        yield
    finally:
        keeping.cancel()


def largest_message() -> int:
    """Return the bytes of the largest message that is taken from a browser."""
    return MAX_MESSAGE + 8 * (settings().max_characters or 0)  # two texts, in UTF-8


def _noted(protocol: type[Any], limits: "Limits") -> type[Any]:
    class Noted(protocol):  # type: ignore[misc]
        """An HTTP protocol whose connections are limited from their first moment on."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            limits.enter(self)

    return Noted


class Limits:
    """Limits of a set of connections, each an asyncio protocol of uvicorn.

    Others add to the open `connections` and remove them; there may be `most`.
    """

    def __init__(
        self,
        connections: set[Any],
        most: int = MAX_CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections, self._most, self._clock = connections, most, clock
        self._waits: dict[Any, tuple[Wait, float]] = {}  # and since when; the oldest first

    def enter(self, connection: Any) -> None:
        """Note a new connection; the one that is waited for longest makes room for it."""
        self._waits[connection] = Wait(REQUEST, SECONDS[REQUEST]), self._clock()
        if len(self._connections) <= self._most:
            return
        for other, (wait, _) in self._waits.items():
            is_open = other in self._connections and not other.transport.is_closing()
            if is_open and waits_for(other) == wait:
                other.transport.abort()
                return

    def look(self) -> None:
        """End connections that hold too much, or that have waited for too long."""
        now = self._clock()
        for gone in self._waits.keys() - self._connections:
            del self._waits[gone]
        for connection in list(self._connections):
            wait = waits_for(connection)
            before = self._waits.get(connection)
            if wait is None:
                self._waits.pop(connection, None)
            elif before is None or before[0] != wait:
                self._waits.pop(connection, None)
                self._waits[connection] = wait, now
            if holds_too_much(connection) or (
                wait is not None and now - self._waits[connection][1] > wait.seconds
            ):
                connection.transport.abort()

    async def keep(self) -> None:
        """Check again and again."""
        while True:
            self.look()
            await asyncio.sleep(POLL_SECONDS)


def waits_for(connection: Any) -> Wait | None:
    """Return what the server waits for at a connection; None where it is the server's turn."""
    if connection.transport.is_closing():  # and what was sent last is not read yet
        return Wait(CLOSE, SECONDS[CLOSE])
    if hasattr(connection, "handshake_complete"):
        if not connection.handshake_complete:
            return Wait(REQUEST, SECONDS[REQUEST])
        return Wait(MESSAGE, SECONDS[MESSAGE]) if _unfinished(connection) else None
    cycle = connection.cycle  # one request and its answer, of h11 and of httptools
    if cycle is None or cycle.response_complete:
        return Wait(REQUEST, SECONDS[REQUEST], cycle)
    if cycle.more_body:
        return Wait(BODY, SECONDS[BODY], cycle)
    if connection.transport.get_write_buffer_size():
        return Wait(ANSWER, SECONDS[ANSWER], cycle)
    return None


def holds_too_much(connection: Any) -> bool:
    """Return whether a connection holds more than a working page ever does."""
    unread = connection.transport.get_write_buffer_size()
    most = int(config.get_option("server.maxMessageSize")) * memory_limit.MB
    if memory_limit.is_over():
        unread, most = unread + _unfinished(connection), MAX_PENDING
    return unread > most or len(getattr(connection, "frames", ())) > MAX_FRAGMENTS


def _unfinished(connection: Any) -> int:
    """Count the bytes of an unfinished websocket message; at least one for a part."""
    if not hasattr(connection, "handshake_complete"):
        return 0
    frames = connection.frames
    return sum(map(len, frames)) + len(frames) + len(connection.conn.reader.buffer)
