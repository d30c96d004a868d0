"""Work that takes a while: what it found stays for the session, a bar shows how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

KEPT = 8  # measurements that a visitor may come back to


def found(kind: str) -> dict[Any, Any]:
    """What this visitor has measured, the latest last.

    Args:
        kind: of measurement, such as "importance".

    Returns:
        What it was measured with -> its result.
    """
    held: dict[Any, Any] = st.session_state.setdefault(f"measured_{kind}", {})
    return held


def keep(kind: str, key: object, result: object) -> None:
    """Keep a measurement; the oldest goes where there are too many.

    Args:
        kind: of measurement.
        key: what it was measured with.
        result: what was found.
    """
    held = found(kind)
    held[key] = result
    while len(held) > KEPT:
        held.pop(next(iter(held)))


@contextmanager
def working(what: str, key: str) -> Iterator[Callable[[float, str], None]]:
    """A bar and a button to stop, while the block works.

    Args:
        what: is done, in a word.
        key: of the button.

    Yields:
        What takes the share that is done, from 0 on, and says it. Drawing it is where Streamlit
        ends a run that another click or text has overtaken.
    """
    bar, stop = st.progress(0.0, f"{what} …"), st.empty()
    stop.button("Stop", key=key)

    def tell(share: float, text: str) -> None:
        bar.progress(min(share, 1.0), text)

    try:
        yield tell
    finally:
        bar.empty()
        stop.empty()
