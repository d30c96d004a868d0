"""A bar that shows how far some work is, and a button that stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

Tell = Callable[[float, str], None]


@contextmanager
def progress(key: str, begin: str, place: DeltaGenerator | None = None) -> Iterator[Tell]:
    """A bar and a button "Stop", which are there while the work inside is done.

    Args:
        key: of the button.
        begin: what the bar says until the work has told something.
        place: where the button stands; beside nothing else if not given.

    Yields:
        What the work has to call now and then: the share that is done, and a few words.
    """
    bar, stop = st.progress(0.0, begin), (place or st).empty()
    stop.button("Stop", key=key, icon=":material/stop:")

    def tell(share: float, words: str) -> None:
        # Drawing is where Streamlit ends a run that another click has overtaken.
        bar.progress(min(share, 1.0), words)

    try:
        yield tell
    finally:
        bar.empty()
        stop.empty()
