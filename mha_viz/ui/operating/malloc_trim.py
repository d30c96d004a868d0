"""Return of freed memory to the system, which the allocator does not do by itself."""

import ctypes
import gc
import os
import sys
import threading

MIN_TRIM_BYTES = 16 * 2**20  # searching the pages of the allocator takes some milliseconds
LARGE_BYTES = 64 * 2**20  # of the record of a long text; the next step works with as many
ARENAS = 2  # that all threads share; a page's run waits for the interpreter far more than for them
TRIM_DELAY_SECONDS = 2.0  # until the work on dropped values has ended
_waiting = threading.Lock()
_M_ARENA_MAX = -8  # of malloc.h


def share_arenas() -> None:
    """Make all threads allocate from few arenas; call it at the start, before there are more.

    glibc gives threads arenas of their own, up to eight for each processor. Runs of pages come and
    go in threads, and what they leave free in one arena is of no use to the others.
    """
    choose = getattr(_libc(), "mallopt", None)
    chosen = "MALLOC_ARENA_MAX" in os.environ  # by who started the program
    if choose is not None and not chosen:  # glibc, as for `now`
        choose(_M_ARENA_MAX, ARENAS)


def soon(n_bytes: int = MIN_TRIM_BYTES) -> None:
    """Give back in a moment what is free then, where it is worth it; several calls become one."""
    if n_bytes < MIN_TRIM_BYTES or not _waiting.acquire(blocking=False):
        return
    timer = threading.Timer(TRIM_DELAY_SECONDS, _waited)
    timer.daemon = True
    timer.start()


def _waited() -> None:
    _waiting.release()
    now()


def now() -> None:
    """Give back what is free, garbage as well."""
    gc.collect()
    after(LARGE_BYTES)


def after(n_bytes: int) -> None:
    """Give back what is free after work with so many bytes, where they are many.

    Blocks of some MB come and go beside what stays, and the next step finds other sizes.
    """
    if n_bytes < LARGE_BYTES:
        return
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:  # glibc; other allocators return memory as they see fit
        trim(0)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
