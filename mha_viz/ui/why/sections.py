"""The views of the Why page, a module each: pick, compute, draw.

Importing it imports torch, transformers and plotly, so the page does it late.
"""

import streamlit as st

from mha_viz.ui.operating.streamlit_run import is_partial
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import Why
from mha_viz.ui.why import TEXTS, connections, patching, prediction, score, tests
from mha_viz.ui.why.targets import say_what_is_measured
from mha_viz.ui.widgets.messages.notices import continue_on_error, stop_on_error

_VIEWS = {
    "prediction": prediction.draw,
    "score": score.draw,
    "connections": connections.draw,
    "patching": patching.draw,
    "test": tests.draw,
}


def fit(scene: Scene) -> None:
    """Replace a token that a link asks for and this text does not have."""
    view, (queries, keys) = selection.of(Why), scene.record.shape[2:]
    n_tokens = {"query": queries, "key": keys, "versus_key": keys}
    absent = {name: getattr(view, name) for name, n in n_tokens.items() if getattr(view, name) >= n}
    if absent:
        named = ", ".join(f"{name}={position}" for name, position in absent.items())
        selection.add_problem(
            f"The link names a token that this text does not have ({named}). Showing another."
        )
        selection.change(**dict.fromkeys(absent, -1))


def draw(scene: Scene) -> None:
    """Draw the chosen view; where nothing is measured for long, in a fragment."""
    view = selection.of(Why)
    if not view.is_of_task:
        if scene.pair is not None and view.why != "test":
            st.info(TEXTS("targets.second_text"))
        say_what_is_measured(scene)
    if _is_quick(view):
        _quick_view(scene)
    else:  # no fragment: Stop must end what measures
        with stop_on_error(), continue_on_error():
            _VIEWS[view.why](scene, view)


def _is_quick(view: Why) -> bool:
    """Return whether nothing in a view is measured for long."""
    if view.why == "connections":
        return view.connections == "weights"
    return view.why in ("prediction", "score")


@fragment
def _quick_view(scene: Scene) -> None:
    """Draw the view in a fragment: a click reruns nothing else on the page."""
    view = selection.of(Why)
    drawn = f"{view.is_of_task} {_is_quick(view)}"
    if is_partial() and session().section != drawn:
        st.rerun()  # the sentence, which comes or goes, stands above, on the page
    session().section = drawn
    with stop_on_error():
        with continue_on_error():
            _VIEWS[view.why](scene, view)
        selection.push_url()
