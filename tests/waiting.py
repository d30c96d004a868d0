"""Waits that name what they wait for."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PATIENCE = 300.0  # seconds, of every wait for what comes: no test is one of the machine's speed


def wait_for(holds: Callable[[], Any], what: object, seconds: float = PATIENCE) -> Any:
    """Return the first true answer of `holds`.

    Args:
        holds: asked again and again.
        what: named in the failure; a function is called for it then, such as one that reads a log.
        seconds: after which the test fails.
    """
    end = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(
                f"waited {seconds:.0f} s in vain for {what() if callable(what) else what}"
            )
        time.sleep(0.02)
    return found


def run_apart(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a thread of its own: a browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
