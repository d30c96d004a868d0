"""The parts of the Intervene page, a module each: switches, their effect, importance, pruning.

Importing it imports torch and plotly.
"""

from __future__ import annotations

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.logits import objective
from mha_viz.ui.intervene import effect, importance, pruning, switches
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import yield_slot
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets.messages.messages import continue_on_error, plain, stop_on_error

NO_HEAD = (
    "This checkpoint predicts no tokens: it has no language-model head, so there is no prediction "
    "to watch. Explore and Compare work with it; to intervene, load a checkpoint that was saved "
    "with its head (…ForMaskedLM, …ForCausalLM)."
)
TWO_STACKS = (
    "This is an encoder-decoder. What it predicts depends on two texts and three kinds of heads; "
    "this page switches the heads of one stack, so it is not offered here. Explore and Compare "
    "work with it; to intervene, choose a masked or causal model such as tiny-bert or tiny-gpt2."
)
TELLS = """
**What it tells.** A head whose removal changes the prediction was used for it, on this text. A head
whose removal changes nothing was not needed here.

**What it does not tell.** A network was never trained with a head missing: what comes after it
meets inputs that it does not know, and part of the change is that surprise. *Mean* and *uniform
attention* often disturb less than *zero*. Later heads may step in for a missing one (backup heads),
so that a head can matter and its removal show little; two heads off together may do much more than
each alone. One text is one text: see the intervals over several above.
"""


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
        st.markdown(TELLS)


def _refusal(model: AttentionModel) -> str:
    """Say why heads of this model cannot be changed; "" where they can."""
    if model.backend != "mha_viz":
        return (
            f"The {model.family} family computes its attention in a way of its own: its weights "
            "are shown in Explore and Compare, but its heads cannot be changed here. Choose a "
            "BERT, GPT-2 or Llama."
        )
    if model.network.config.is_encoder_decoder:
        return TWO_STACKS
    return "" if objective(model.network) is not None else NO_HEAD


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
