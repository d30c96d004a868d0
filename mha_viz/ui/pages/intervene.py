"""Intervene: switch heads off and see what the model says then. Pick, compute, draw."""

from __future__ import annotations

import streamlit as st

from mha_viz.ui.session import memory, state
from mha_viz.ui.widgets import look, picking


def page() -> None:
    """The Intervene page."""
    look.page_style()
    st.title("Switch heads off", anchor=False)
    scene = picking.picked()
    memory.late("mha_viz.ui.intervene").draw(scene)
    state.publish()
