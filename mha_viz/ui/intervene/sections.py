"""The sections of the Intervene page, a module each: switches, prediction, importance, pruning.

Importing it imports torch and plotly.
"""

import time

import streamlit as st

from mha_viz.ui import intervene
from mha_viz.ui.heads.predicted import refusal
from mha_viz.ui.intervene import TEXTS, answer, effect, importance, switches
from mha_viz.ui.operating.streamlit_run import is_partial
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import takes_long, yield_slot
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.run.scene import Scene, compute, fit_head
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import is_fault
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets.messages.messages import plain, stop_on_error


def draw(scene: Scene) -> None:
    """Draw everything below the sentence."""
    view = state.of(Intervene)
    model = memory.model(*view.checkpoint)
    if reason := refusal(model):
        st.info(plain(reason), icon=":material/block:")
        return
    above = st.container(key="controls")
    above.empty()  # it has its place from now on
    left, right = st.columns([11, 10], gap="medium")
    with left:
        _heads(scene)
    with right:
        with st.container(key="answer"):
            _answer(scene)
        below = st.container()
    with above:
        _controls(scene, view.chosen)
    with below:
        _chart(scene)
    _more(scene)
    yield_slot()
    importance.draw(scene)
    importance.draw_pruning(scene)
    with st.expander("What an ablation tells, and what it does not"):
        st.markdown(TEXTS("sections.tells"))


# Parts of the page run by themselves, in the order in which they follow a choice. What a person
# waits for comes first: a switch is followed by the prediction, a text by its heads; charts last.
PAINT_SECONDS = 0.05


@fragment(key=intervene.HEADS)
def _heads(scene: Scene) -> None:
    with stop_on_error():
        switches.draw(_present(scene))


@fragment(key=intervene.ANSWER)
def _answer(scene: Scene) -> None:
    with stop_on_error():
        answer.draw(_present(scene))
    if is_partial():  # a browser paints on the server's processor, and the next part at once
        time.sleep(PAINT_SECONDS)
    if state.of(Intervene).text != scene.text:
        st.rerun()  # all else on the page is still of the text before


@fragment(key=intervene.CONTROLS)
def _controls(scene: Scene, framed: tuple[int, int]) -> None:
    if state.of(Intervene).chosen != framed:
        st.rerun()  # the rest of the page shows another head
    with stop_on_error():
        switches.draw_controls(scene)


@fragment(key=intervene.CHART)
def _chart(scene: Scene) -> None:
    with stop_on_error():
        effect.chart(scene)
        state.push_url()


@fragment(key=intervene.MORE)
def _more(scene: Scene) -> None:
    with stop_on_error():
        effect.more(scene)


def _present(scene: Scene) -> Scene:
    """Return the run of the text that was typed since the page drew `scene`.

    The whole page runs where that takes long, and so can be stopped, or fails, which it says.
    """
    view = state.of(Intervene)
    with st.container():  # in every run, so that what follows stays in place
        if view.text == scene.text:
            return scene
        try:
            if not view.text.strip() or takes_long(memory.model(*view.checkpoint), view.text):
                st.rerun()
            found = compute(view)
            fit_head(found)
        except BaseException as error:
            if not is_fault(error):
                raise
            st.rerun()
        return found
