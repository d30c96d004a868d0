"""Limits of open websockets (one a page), and of what browsers send by them."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mha_viz.errors import LimitError
from mha_viz.ui.operating import addresses
from mha_viz.ui.operating.refusals import refused
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import admission
from mha_viz.ui.server import messages
from mha_viz.ui.server.messages import ForeignMessageError, TokenBucket

FOREIGN = 1008  # RFC 6455: it breaks the server's rules
TRY_LATER = 1013  # RFC 6455, registered later
WAITING = 20  # pages beyond those that have a place, which say so and wait for one
WAITING_PER_ADDRESS = 4
SILENT = 30.0  # seconds after which a page that was only opened makes room
MAX_ADDRESSES = 10_000  # whose messages are counted: those that sent none for longest go first


@dataclass(eq=False)
class _Page:
    """An open websocket."""

    address: str | None  # None is an address of many
    send: Send
    opened: float
    supply: TokenBucket  # of messages
    acted: bool = False  # one that waits for a place asks for it every 10 seconds


class Websockets:
    """ASGI middleware that refuses websockets beyond the limits, and passes on visitors' addresses.

    Whoever opens enough of them and does nothing would keep others out, so that the oldest of those
    makes room. On a public server messages come no faster than `messages.PAGE` and
    `messages.ADDRESS` say: the connection is read no further meanwhile. A message that no page
    sends is dropped, and one that holds what no page has closes its websocket.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self._clock = app, clock
        self._open: set[_Page] = set()
        self._supplies: LRUCache[str, TokenBucket] = LRUCache(MAX_ADDRESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or close it before it is a websocket."""
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        peer, port = scope.get("client") or ("", 0)
        named = headers.getlist("x-forwarded-for"), headers.getlist("forwarded")
        try:
            address = addresses.client(peer, *named)
            silent = self._make_room(addresses.counted(address))
        except (ValueError, LimitError):  # a browser shows no reason for either
            await send({"type": "websocket.close", "code": TRY_LATER})
            return
        supply = TokenBucket(*messages.PAGE, self._clock)
        page = _Page(addresses.counted(address), send, self._clock(), supply)

        async def hear() -> Message:
            while True:
                message = await receive()
                page.acted = page.acted or self._clock() - page.opened > admission.OPENING_SECONDS
                if not settings().public or message["type"] != "websocket.receive":
                    return message
                await asyncio.sleep(self._wait(page))
                try:
                    if messages.is_expected(message.get("bytes") or b""):
                        return message
                except ForeignMessageError:
                    await send({"type": "websocket.close", "code": FOREIGN})
                    return {"type": "websocket.disconnect", "code": FOREIGN}

        self._open.add(page)
        try:
            if silent is not None:
                with contextlib.suppress(RuntimeError, OSError):  # it is closing by itself
                    await silent.send({"type": "websocket.close", "code": TRY_LATER})
            await self.app({**scope, "client": (address, port)}, hear, send)
        finally:
            self._open.discard(page)

    def _wait(self, page: _Page) -> float:
        """Take a message of the supplies of a page and its address; return when it is due."""
        seconds = page.supply.take()
        if page.address is None:
            return seconds
        bucket = self._supplies.setdefault(
            page.address, TokenBucket(*messages.ADDRESS, self._clock)
        )
        return max(seconds, bucket.take())

    def _make_room(self, address: str | None) -> _Page | None:
        """Count one more page of an address; the one that has to go for it, None where none has.

        Raises LimitError: there is no room.
        """
        most, per_address = settings().max_sessions, settings().sessions_per_address
        if address is not None and per_address is not None:
            of_one = sum(page.address == address for page in self._open)
            if of_one >= per_address + WAITING_PER_ADDRESS:
                raise refused("websocket.address")
        if most is None or len(self._open) < most + WAITING:
            return None
        unused = (page for page in self._open if not page.acted)
        silent = min(unused, key=lambda page: page.opened, default=None)
        if silent is None or self._clock() - silent.opened < SILENT:
            raise refused("websocket.all")
        self._open.discard(silent)
        return silent
