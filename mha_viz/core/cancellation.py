"""Cancellation of work between two of its blocks, once its result is not needed any more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_checks: ContextVar[tuple[Callable[[], object], ...]] = ContextVar("cancellation", default=())


@contextmanager
def cancellation(check: Callable[[], object] | None) -> Iterator[None]:
    """Let `check` cancel the work inside: it is called before each block and may raise.

    It travels with the call and its thread alone, so that no signature has to name it. `check` is
    called often, hence quick; what it raises abandons the work, which leaves nothing. Checks around
    this call are called first. None lifts them: the work is finished.

    >>> def overtaken():
    ...     raise TimeoutError
    >>> with cancellation(overtaken):
    ...     check_cancelled()
    Traceback (most recent call last):
        ...
    TimeoutError
    """
    outer = _checks.get()
    token = _checks.set(() if check is None else (*outer, check))
    try:
        yield
    finally:
        _checks.reset(token)


def check_cancelled() -> None:
    """Raise what a check around this call raises; for the start of a block of some milliseconds.

    >>> check_cancelled()
    """
    for check in _checks.get():
        check()
