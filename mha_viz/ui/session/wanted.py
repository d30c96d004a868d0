"""Work that ends where nobody waits for it any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from mha_viz.core.asking import asking

PATIENCE = 0.4  # seconds: what takes less is finished, and shows no bar


@contextmanager
def while_wanted() -> Iterator[None]:
    """What is measured inside ends once a click or a text has overtaken it, or its page is left.

    Streamlit ends the run there; what has been made so far is gone.
    """
    asked = time.perf_counter()

    def now_and_then() -> None:
        nonlocal asked
        if time.perf_counter() - asked > PATIENCE:
            look()
            asked = time.perf_counter()

    with asking(now_and_then):
        yield


def look() -> None:
    """End this run if it was overtaken, or its page was left."""
    # Where its state is read, Streamlit does so. It does where it draws, too; but what is drawn
    # takes a place, and all below would move.
    "view" in st.session_state  # noqa: B015
