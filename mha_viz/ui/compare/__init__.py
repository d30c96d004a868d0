"""The sections of the Compare page, a module each: pick, compute, draw.

Knows scenes, reports and plots. Importing it imports torch and plotly, so the page does it late.
"""

from __future__ import annotations

import streamlit as st

from mha_viz.ui import state
from mha_viz.ui.compare import alike, diversity, flow, layers, sides, twins
from mha_viz.ui.messages import shown
from mha_viz.ui.scene import Scene

_SECTIONS = {
    "layers": layers.draw,
    "twins": twins.draw,
    "alike": alike.draw,
    "sides": sides.draw,
    "diversity": diversity.draw,
    "flow": flow.draw,
}


def draw(scene: Scene) -> None:
    """The chosen section."""
    _fit_second_head(scene)
    _section(scene)


@st.fragment
def _section(scene: Scene) -> None:
    """A click reruns this and nothing else of the page."""
    with shown():
        _SECTIONS[state.current().section](scene)
        state.publish()


def _fit_second_head(scene: Scene) -> None:
    """The second head of a pair, brought back to one that exists (another model may have more)."""
    view, record = state.current(), scene.record
    if view.model_b or (view.layer_b < record.n_layers and view.head_b < record.n_heads):
        return
    state.change(layer_b=0, head_b=min(1, record.n_heads - 1))
