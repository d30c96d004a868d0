"""The parts of the Intervene page, a module each: switches, their effect, importance, pruning.

Knows scenes, the model's interventions and plots. Importing it imports torch and plotly.
"""

from __future__ import annotations

import streamlit as st

from mha_viz.capture.logits import objective
from mha_viz.ui import memory, state
from mha_viz.ui.intervene import effect, importance, pruning, switches
from mha_viz.ui.messages import shown
from mha_viz.ui.scene import Scene

NO_HEAD = (
    "This checkpoint predicts no tokens: it has no language-model head, so there is no prediction "
    "to watch. Explore and Compare work with it; to intervene, load a checkpoint that was saved "
    "with its head (…ForMaskedLM, …ForCausalLM)."
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
    """Everything below the sentence."""
    view = state.current()
    model = memory.model(view.model, view.device, view.dtype)
    if model.mechanism != "ours":
        st.info("This family computes its attention by itself: its heads cannot be changed here.")
        return
    if objective(model.network) is None:
        st.info(NO_HEAD)
        return
    _now(scene)
    importance.draw(scene)
    pruning.draw(scene)
    with st.expander("What an ablation tells, and what it does not"):
        st.markdown(TELLS)


@st.fragment
def _now(scene: Scene) -> None:
    """Switches and what they do; a switch reruns this and nothing else of the page."""
    with shown():
        switches.draw(scene)
        effect.draw(scene)
        state.publish()
