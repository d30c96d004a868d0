"""How the server ends: Ctrl-C and SIGTERM are orders to stop, not failures."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def quietly(app: object) -> AsyncGenerator[None]:
    """The app's lifespan, in which both signals stop the server with exit status 0.

    By itself uvicorn stops, and then sends itself the signal again: "Aborted!", and status 1.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        server: Any = getattr(signal.getsignal(number), "__self__", None)
        if hasattr(server, "should_exit"):
            signal.signal(number, lambda *_, server=server: _stop(server))
    yield


def _stop(server: Any) -> None:
    server.force_exit = server.should_exit  # the second time it waits for nobody
    server.should_exit = True
