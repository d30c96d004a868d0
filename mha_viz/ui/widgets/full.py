"""What a page shows while the server has no place for it."""

from __future__ import annotations

import streamlit as st

from mha_viz.ui.session import places

OFTEN = 10  # seconds between two attempts


def draw() -> None:
    """Say that the server is full, and open the page once there is a place."""
    st.info(places.full(), icon=":material/hourglass_top:")
    _wait()


@st.fragment(run_every=OFTEN)
def _wait() -> None:
    if places.has_place():
        st.rerun()
