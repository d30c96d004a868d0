"""Give freed memory back to the system, which the allocator does not do by itself."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading

WORTH = 16 * 2**20  # bytes; to search the allocator's pages takes some milliseconds
SOON = 2.0  # seconds: whoever works with what was dropped has gone on by then
_waiting = threading.Lock()


def soon(n_bytes: int = WORTH) -> None:
    """Give back in a moment what is free then, where it is worth it; several calls become one."""
    if n_bytes < WORTH or not _waiting.acquire(blocking=False):
        return
    timer = threading.Timer(SOON, _waited)
    timer.daemon = True
    timer.start()


def _waited() -> None:
    _waiting.release()
    now()


def now() -> None:
    """Give back what is free."""
    gc.collect()
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    trim = getattr(library, "malloc_trim", None)
    if trim is not None:  # glibc; other allocators return memory as they see fit
        trim(0)
