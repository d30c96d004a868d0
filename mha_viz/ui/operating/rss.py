"""Memory of the server: its own process and those that it has started."""

from contextlib import suppress

import psutil

from mha_viz.core.available_memory import available


def used() -> int:
    """Return the bytes in memory of this process and its children.

    Of a child only the part counts that it shares with nobody, where the system tells it (Linux):
    the libraries that all have loaded lie in memory once.
    """
    process = psutil.Process()
    n_bytes: int = process.memory_info().rss
    for child in process.children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            memory = child.memory_info()
            n_bytes += memory.rss - getattr(memory, "shared", 0)
    return n_bytes


def free() -> int:
    """Return the bytes that this machine, or the container of the server, has left."""
    n_bytes = available()
    return int(psutil.virtual_memory().available) if n_bytes is None else n_bytes
