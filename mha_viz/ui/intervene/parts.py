"""The parts of the page that run by themselves, in the order in which they follow a choice.

What a person waits for comes first: a switch is followed by the prediction, a new text by its
heads. Charts come last.
"""

import time

import streamlit as st

from mha_viz.ui.intervene import ANSWER, CHART, CONTROLS, HEADS, MORE
from mha_viz.ui.operating.streamlit_run import is_partial, rerun_parts
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import takes_long
from mha_viz.ui.run.scene import Scene, compute, fit_head
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import is_fault
from mha_viz.ui.state.views import Intervene

PAINT_SECONDS = 0.05


def follow_switch() -> None:
    """Run what depends on the changed heads; for the end of a callback."""
    rerun_parts(ANSWER, HEADS, CONTROLS, CHART, MORE)


def follow_place() -> None:
    """Run what depends on the predicted place or the tracked token; for the end of a callback."""
    rerun_parts(ANSWER, CHART, MORE)


def let_browser_paint() -> None:
    """Wait until the browser has painted the part before, if others follow it in this run.

    It often shares its processor with the server, and draws a chart at once where one has come.
    """
    if is_partial():
        time.sleep(PAINT_SECONDS)


def present(scene: Scene) -> Scene:
    """Return the run of the text that was typed since the page drew `scene`.

    The whole page runs where that takes long, and so can be stopped, or fails, which it says.
    """
    view = state.of(Intervene)
    with st.container():  # in every run, so that what follows stays in place
        return scene if view.text == scene.text else _compute(view)


def _compute(view: Intervene) -> Scene:
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
