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

    def look() -> None:
        # Where its state is read, Streamlit ends a run that was overtaken or whose page was left.
        # It does so where it draws, too; but what is drawn takes a place, and all below would move.
        nonlocal asked
        if time.perf_counter() - asked > PATIENCE:
            "view" in st.session_state  # noqa: B015
            asked = time.perf_counter()

    with asking(look):
        yield
