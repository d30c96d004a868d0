"""Work that somebody may stop waiting for: between two of its blocks it asks whether to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_who: ContextVar[Callable[[], object] | None] = ContextVar("who is asked", default=None)


@contextmanager
def asking(who: Callable[[], object] | None) -> Iterator[None]:
    """Around a call: what it measures asks `who` before each of its blocks.

    It travels with the call and its thread alone, so that all that is measured of a record can be
    abandoned without a word in each signature.

    Args:
        who: called often, hence quick; what it raises abandons the work, which leaves nothing. It
            is asked after whoever is asked around this call. None is nobody: what is inside is
            finished in any case.

    >>> def overtaken():
    ...     raise TimeoutError
    >>> with asking(overtaken):
    ...     ask()
    Traceback (most recent call last):
        ...
    TimeoutError
    """
    around = _who.get()
    before = _who.set(who if around is None or who is None else _both(around, who))
    try:
        yield
    finally:
        _who.reset(before)


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], None]:
    def ask_both() -> None:
        first()
        second()

    return ask_both


def ask() -> None:
    """Whether to go on; for the start of a block of some milliseconds. Returns where nobody cares.

    >>> ask()
    """
    who = _who.get()
    if who is not None:
        who()
