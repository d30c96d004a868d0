"""The view Test: a circuit on unseen pairs, and which heads matter on some texts."""

import streamlit as st

from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import TITLES, Why
from mha_viz.ui.why import TEXTS, circuit, importance, pruning, tasks
from mha_viz.ui.widgets.controls import choosing


def draw(scene: Scene, view: Why) -> None:
    """Draw a task's circuit and what it carries, or importance and pruning."""
    if view.test == "circuit":
        circuit.draw(scene, view, tasks.choose(scene, view, _circuit_row))
        return
    _switch()
    importance.draw(scene, view)
    pruning.draw(scene, view)
    with st.expander("What an ablation tells, and what it does not"):
        st.markdown(TEXTS("importance.tells"))


def _circuit_row() -> None:
    _switch()
    tasks.menu()


def _switch() -> None:
    choosing.segments("test", "Test", TITLES["tests"], label_visibility="collapsed")
