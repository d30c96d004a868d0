"""The parts of the Intervene page, a module each: switches, their effect, importance, pruning.

Importing it imports torch and plotly.
"""

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.logits import objective
from mha_viz.ui.intervene import TEXTS, effect, importance, pruning, switches
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import yield_slot
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets.messages.messages import continue_on_error, plain, stop_on_error


def draw(scene: Scene) -> None:
    """Draw everything below the sentence."""
    view = state.of(Intervene)
    model = memory.model(*view.checkpoint)
    refusal = _refusal(model)
    if refusal:
        st.info(plain(refusal), icon=":material/block:")
        return
    _now(scene, (view.text, view.chosen))
    yield_slot()
    importance.draw(scene)
    pruning.draw(scene)
    with st.expander("What an ablation tells, and what it does not"):
        st.markdown(TEXTS("sections.tells"))


def _refusal(model: AttentionModel) -> str:
    """Say why heads of this model cannot be changed; "" where they can."""
    if model.backend != "mha_viz":
        return TEXTS("sections.refusal", family=model.family)
    if model.network.config.is_encoder_decoder:
        return TEXTS("sections.two_stacks")
    return "" if objective(model.network) is not None else TEXTS("sections.no_head")


@st.fragment
def _now(scene: Scene, drawn: tuple[str, tuple[int, int]]) -> None:
    """Draw switches and their effect in a fragment, beside nothing else of the page.

    `drawn`: the text and the framed head that the rest of the page shows.
    """
    view = state.of(Intervene)
    if (view.text, view.chosen) != drawn:  # a word was masked, another head framed
        st.rerun()
    with stop_on_error():
        switches.draw(scene)
        with continue_on_error():
            effect.draw(scene)
        state.push_url()
