"""The sections of the Compare page, a module each: pick, compute, draw.

Importing it imports torch and plotly, so the page does it late.
"""

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.ui.compare import board, diversity, rollout, similar, two_models
from mha_viz.ui.operating.streamlit_run import is_partial
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.run.scene import Scene, is_head, no_such_head
from mha_viz.ui.state import selection, views
from mha_viz.ui.state.layer_numbers import by_number
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets.controls import choosing, model_menus
from mha_viz.ui.widgets.messages.notices import stop_on_error

_SECTIONS = {"board": board.draw, "similar": similar.draw, "models": two_models.draw}
_MORE = {"diversity": diversity.draw, "flow": rollout.draw}


def fit(scene: Scene) -> None:
    """Replace what a link asks for and this scene does not have by something that it has."""
    view, record = selection.of(Compare), scene.record
    if view.metric not in METRICS:
        instead = METRICS["entropy"].title
        selection.add_problem(f"There is no metric {view.metric!r}. Showing {instead}.")
        selection.change(metric="entropy")
    if view.model_b not in model_menus.other_models():
        selection.add_problem(
            f"The model {view.model_b!r} that the link names is not on this machine."
        )
        selection.change(model_b="")
    of_first = view.section == "similar" or selection.of(Compare).model_b in ("", view.model)
    if of_first and not is_head(record, view.second):
        number = by_number(view).layer_b
        selection.add_problem(f"{no_such_head(record, number, view.head_b)} Showing another one.")
        selection.change(layer_b=0, head_b=min(1, record.n_heads - 1))


@fragment
def draw(scene: Scene) -> None:
    """Draw the chosen section in a fragment: a click reruns nothing else on the page."""
    with stop_on_error():
        view = selection.of(Compare)
        if is_partial() and view.section != session().section:
            st.rerun()  # the tabs stand above, on the page
        session().section = view.section
        if view.section == "more":
            titles = views.TITLES["more"]
            choosing.segments("more", "Analysis", titles, label_visibility="collapsed")
            _MORE[view.more](scene, selection.of(Compare))
        else:
            _SECTIONS[view.section](scene, view)
        selection.push_url()
