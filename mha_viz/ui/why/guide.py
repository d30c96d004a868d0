"""The guided way over the views of the Why page: find, explain, test."""

from functools import partial
from typing import Any

import streamlit as st

from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.why import TEXTS
from mha_viz.ui.widgets.controls import lazy_sections

# Each step, and what it sets of the view.
_STEPS: dict[str, dict[str, Any]] = {
    "task": dict(why="test", test="circuit"),
    "heads": dict(why="test", test="circuit"),
    "writes": dict(why="prediction", prediction="parts", averaged=True),
    "looks": dict(why="score", score="parts"),
    "edges": dict(why="connections", connections="task"),
    "test": dict(why="test", test="circuit"),
}


def draw() -> None:
    """Draw a menu of the steps, each with a button that leads to its view."""
    lazy_sections.in_popover(TEXTS("way.title"), ":material/route:", "way", _steps)


def _steps() -> None:
    labels = TEXTS.labels("way.buttons")
    for step, changes in _STEPS.items():
        with st.container(horizontal=True, vertical_alignment="center"):
            go = partial(state.change, **changes)
            st.button(labels[step], key=f"way-{step}", on_click=guarded(go), width=190)
            st.markdown(TEXTS(f"way.{step}"), width="stretch")
