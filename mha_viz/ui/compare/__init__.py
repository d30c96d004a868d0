"""The sections of the Compare page, a module each: pick, compute, draw.

Importing it imports torch and plotly, so the page does it late.
"""

from __future__ import annotations

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.ui.compare import alike, diversity, flow, layers, sides, twins
from mha_viz.ui.session import state
from mha_viz.ui.session.scene import Scene, is_head, no_such_head
from mha_viz.ui.widgets import controls
from mha_viz.ui.widgets.messages import stop_on_error

_SECTIONS = {
    "layers": layers.draw,
    "twins": twins.draw,
    "alike": alike.draw,
    "sides": sides.draw,
    "diversity": diversity.draw,
    "flow": flow.draw,
}


def fit(scene: Scene) -> None:
    """Replace what a link asks for and this scene does not have by something that it has."""
    view, record = state.current(), scene.record
    if view.metric not in METRICS:
        state.tell(f"There is no metric {view.metric!r}. Showing {METRICS['entropy'].title}.")
        state.change(metric="entropy")
    if view.model_b not in controls.other_models():
        state.tell(f"The model {view.model_b!r} that the link names is not on this machine.")
        state.change(model_b="")
    of_first = view.section != "sides" or state.current().model_b in ("", view.model)
    if of_first and not is_head(record, (view.layer_b, view.head_b)):
        missing = no_such_head(record, view.layer_b, view.head_b)
        state.tell(f"{missing} Showing another one.")
        state.change(layer_b=0, head_b=min(1, record.n_heads - 1))


def draw(scene: Scene) -> None:
    """The chosen section."""
    _section(scene)


@st.fragment
def _section(scene: Scene) -> None:
    """The section; a click reruns this and nothing else on the page."""
    with stop_on_error():
        _SECTIONS[state.current().section](scene)
        state.publish()
