"""A way through the page: find the heads of a task, explain them, test them on unseen pairs."""

from functools import partial
from typing import Any

import streamlit as st

from mha_viz.ui.circuits import TEXTS
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets.controls import lazy_sections

# Each step, and what it sets of the view.
_STEPS: dict[str, dict[str, Any]] = {
    "task": dict(circuit="test"),
    "heads": dict(circuit="test"),
    "writes": dict(circuit="writes", averaged=True),
    "looks": dict(circuit="looks"),
    "edges": dict(circuit="edges"),
    "test": dict(circuit="test"),
}


def draw() -> None:
    """Draw the steps, folded."""
    lazy_sections.in_expander(TEXTS("way.title"), "way", _steps)


def _steps() -> None:
    labels = TEXTS.labels("way.buttons")
    for step, changes in _STEPS.items():
        with st.container(horizontal=True, vertical_alignment="center"):
            go = partial(state.change, **changes)
            st.button(labels[step], key=f"way-{step}", on_click=guarded(go), width=220)
            st.markdown(TEXTS(f"way.{step}"), width="stretch")
