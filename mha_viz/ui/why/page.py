"""Why: what made a prediction or a score, and what tests it. Pick, compute, draw."""

import streamlit as st

from mha_viz.ui.heads import WORDS, picking
from mha_viz.ui.run import memory
from mha_viz.ui.state import state, views
from mha_viz.ui.state.session import session, to_browser
from mha_viz.ui.why import guide
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing


def page() -> None:
    """Draw the Why page."""
    if state.address().get("circuit") == "words":  # an older link: words belong to the head
        state.sync_from_url()
        to_browser(WORDS, True)
        st.switch_page(session().pages["heads"], query_params=state.share_params())
    look.projector()
    look.heading("Why: what made this, and what tests it")
    scene = picking.picked(lambda scene: _sections().fit(scene), _has_sentence)
    with st.container(key="tabs", horizontal=True, vertical_alignment="center"):
        choosing.segments("why", "View", views.WHY, label_visibility="collapsed")
        guide.draw()
    _sections().draw(scene)
    state.push_url()


def _has_sentence() -> bool:
    """Return whether the page is about the sentence, and not about the pairs of a task."""
    return not state.of(views.Why).is_of_task


def _sections() -> picking.Sections:
    memory.await_transformers()
    from mha_viz.ui.why import sections

    return sections
