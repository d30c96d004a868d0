"""What is made, and sent to the browser, only while somebody has it open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.ui.widgets.messages import stop_on_error

WAIT = "One moment …"  # seen between the click and the run that it causes


@st.fragment
def expander(title: str, key: str, draw: Callable[[], Any]) -> None:
    """A fragment of its own: opening it does not draw the page again."""
    with st.expander(title, on_change="rerun", key=key) as folded:
        if folded.open:
            with stop_on_error():
                draw()


def popover(label: str, icon: str, key: str, draw: Callable[[], Any]) -> None:
    """As `expander`; no wider than its label."""
    with st.container(width="content"):  # a fragment by itself takes all the width
        _popover(label, icon, key, draw)


@st.fragment
def _popover(label: str, icon: str, key: str, draw: Callable[[], Any]) -> None:
    folded = st.popover(label, icon=icon, width="content", on_change="rerun", key=key)
    with folded:
        if not folded.open:
            st.caption(WAIT)
            return
        with stop_on_error():
            draw()


def table(title: str, key: str, make: Callable[[], pd.DataFrame], **options: Any) -> None:
    """A table below its title; options as for `st.dataframe`."""
    expander(title, key, lambda: st.dataframe(make(), **options))
