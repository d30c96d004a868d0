"""Start and end of the server: Ctrl-C, SIGTERM and a closed terminal are no failures."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from streamlit import config

from mha_viz.corpus.store.temporary import delete_left_behind
from mha_viz.errors import MissingPackageError, SettingsError
from mha_viz.extras import require
from mha_viz.ui.operating import (
    descriptors,
    log_redaction,
    malloc_trim,
    memory_limit,
    streamlit_run,
)
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import late_imports, memory
from mha_viz.ui.server import connections
from mha_viz.ui.state import class_answers

CLOSE_SECONDS = 1.0  # for connections to close; a sleeping browser closes none
CLEANUP_SECONDS = 0.9  # for temporary folders and started processes to end
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no terminal that hangs up


def begin() -> None:
    """Prepare this server, or end the program with a sentence where a setting is not valid."""
    try:
        checked = settings()
        if checked.cluster:  # where Ray is missing, now is the time to say so
            require("cluster", f"cluster = {checked.cluster}", "Or leave the setting out.")
        if checked.shared:
            class_answers.classes()  # and where nothing can be written
    except (MissingPackageError, SettingsError) as error:
        sys.exit(f"error: {error}")
    if checked.max_upload_mb is not None:  # refused while it comes in, whatever the page says
        config.set_option("server.maxUploadSize", checked.max_upload_mb)
    if checked.public:
        # Of what uvicorn has taken in (connections.py); the option is a number of whole MB.
        largest = -(-connections.largest_message() // memory_limit.MB)
        config.set_option("server.maxWidgetStateSize", largest)
        config.set_option("logger.enableRich", False)  # it prints errors past the log
        log_redaction.begin()
    delete_left_behind()  # texts of visitors, by servers that were killed
    streamlit_run.keep_queued_messages()
    streamlit_run.finish_runs_first()
    descriptors.raise_limit()
    malloc_trim.share_arenas()
    memory_limit.keep(memory.let_go)


def go_on() -> None:
    """Have the libraries imported behind a page that has been drawn, and the pages' sections."""
    late_imports.import_rest(_import_sections)


def _import_sections() -> None:
    import mha_viz.ui.compare.sections  # noqa: F401


@asynccontextmanager
async def quietly(app: object) -> AsyncGenerator[None]:
    """Hold the app's lifespan, in which an order to stop ends the process with exit status 0.

    By itself uvicorn waits for the last page, and then sends itself the signal again: "Aborted!",
    and status 1. What is written is written as a whole or not at all, so that nothing that is under
    way need be waited for.
    """
    server: Any = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    ending = _Ending(server)
    if hasattr(server, "should_exit"):
        for number in filter(None, (getattr(signal, name, None) for name in _NAMES)):
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
                signal.signal(number, ending.order)
    limited = settings().public and hasattr(server, "server_state")
    async with connections.limited(server) if limited else nullcontext():
        yield
    ending.closed()


class _Ending:
    """The end of the process from the first order on; further orders change nothing."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._ordered, self._closed = threading.Event(), threading.Event()

    def order(self, *_: object) -> None:
        """Close the connections, and end the process soon."""
        if not self._ordered.is_set():
            self._ordered.set()
            self._server.should_exit = True
            threading.Thread(target=self._end, daemon=True).start()

    def closed(self) -> None:
        """Finish once all connections are closed; return only where nobody has ordered the end."""
        self._closed.set()
        if self._ordered.is_set():
            # Back in uvicorn, the next signal would be the system's again, which kills.
            threading.Event().wait()

    def _end(self) -> None:
        self._closed.wait(CLOSE_SECONDS)
        # All that Python does at its end but to wait for other threads.
        tidying = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        tidying.start()
        tidying.join(CLEANUP_SECONDS)
        os._exit(0)
