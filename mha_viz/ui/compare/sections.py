"""The sections of the Compare page, a module each: pick, compute, draw.

Importing it imports torch and plotly, so the page does it late.
"""

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.ui.compare import board, diversity, layers, scatter, side_by_side, twins, two_models
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.run.scene import Scene, is_head, no_such_head
from mha_viz.ui.state import state
from mha_viz.ui.state.layer_numbers import by_number
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets.controls import controls
from mha_viz.ui.widgets.messages.messages import stop_on_error

_SECTIONS = {
    "layers": layers.draw,
    "twins": twins.draw,
    "alike": scatter.draw,
    "sides": side_by_side.draw,
    "models": two_models.draw,
    "diversity": diversity.draw,
    "flow": layers.draw_flow,
    "pins": board.draw,
}
_OF_PAIRS = ("twins", "alike", "sides", "models")


def fit(scene: Scene) -> None:
    """Replace what a link asks for and this scene does not have by something that it has."""
    view, record = state.of(Compare), scene.record
    if view.metric not in METRICS:
        instead = METRICS["entropy"].title
        state.add_problem(f"There is no metric {view.metric!r}. Showing {instead}.")
        state.change(metric="entropy")
    if view.model_b not in controls.other_models():
        state.add_problem(f"The model {view.model_b!r} that the link names is not on this machine.")
        state.change(model_b="")
    beside = view.section in ("sides", "models")
    of_first = not beside or state.of(Compare).model_b in ("", view.model)
    if of_first and not is_head(record, view.second):
        number = by_number(view).layer_b
        state.add_problem(f"{no_such_head(record, number, view.head_b)} Showing another one.")
        state.change(layer_b=0, head_b=min(1, record.n_heads - 1))


@fragment()
def draw(scene: Scene) -> None:
    """Draw the chosen section in a fragment: a click reruns nothing else on the page."""
    with stop_on_error():
        if len(state.of(Compare).pins) != st.session_state.get("pins_counted"):
            st.rerun()  # their number stands above, on the page
        view = state.of(Compare)
        if view.layer_b < 0 and view.section in _OF_PAIRS:  # Twins replaces it by the nearest twin
            layer, head = session().auto_second = 0, min(1, scene.record.n_heads - 1)
            state.change(layer_b=layer, head_b=head)
        _SECTIONS[view.section](scene)
        state.push_url()
