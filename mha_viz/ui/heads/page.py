"""Heads: type a sentence, see every head, read one. Pick, compute, draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from mha_viz.ui.heads import picking
from mha_viz.ui.run import late_imports
from mha_viz.ui.state import selection
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import HeadsView
from mha_viz.ui.widgets import look

if TYPE_CHECKING:
    from mha_viz.ui.run.scene import Scene


def page() -> None:
    """Draw the Heads page."""
    look.heading("Every attention head, on your sentence")
    _welcome()
    bar, scene = picking.bar_and_scene(_fit)
    from mha_viz.ui.heads import drawing

    panel = st.container()
    if scene.stored is not None:  # a stored run waits for no model, and predicts nothing
        drawing.heads(scene)
        return
    late_imports.await_transformers()
    from mha_viz.ui.heads import writing

    with panel:
        scene = writing.continued(scene, selection.of(HeadsView), bar)
    drawing.heads(scene, in_motion=writing.is_playing(scene))


def _welcome() -> None:
    """Draw a title and the way to the first lesson, which a first visit alone shows."""
    with st.container(key="welcome", horizontal=True, vertical_alignment="center"):
        st.markdown("See where every attention head looks", width="content")
        page = session().pages["start"]
        st.page_link(page, label="Start here", icon=":material/route:", width="content")


def _fit(scene: Scene) -> None:
    from mha_viz.ui.heads.drawing import fit_grid

    fit_grid(scene, selection.of(HeadsView))
