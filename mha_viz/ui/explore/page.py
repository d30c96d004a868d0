"""Explore: type a sentence, see every head, read one. Pick, compute, draw."""

import streamlit as st

from mha_viz.ui.run import memory
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls, picking


def page() -> None:
    """Draw the Explore page."""
    look.projector()
    look.heading("Every attention head, on your sentence")
    scene = picking.picked(lambda scene: memory.late("mha_viz.ui.explore.drawing").fit_grid(scene))
    runs = scene.stored is None  # a stored run waits for no model, and predicts nothing
    row, panel = st.container(horizontal=True, vertical_alignment="center"), st.container()
    line, is_playing = None, False
    if runs:
        writing = memory.late("mha_viz.ui.explore.writing")
        with panel:
            scene = writing.continued(scene, row)
        is_playing = writing.is_playing(scene)
        line = writing.announce(row, scene)
    with st.container():
        if hint := controls.example_hint():
            st.caption(f":material/lightbulb: {hint}")
    memory.late("mha_viz.ui.explore.drawing").heads(scene, in_motion=is_playing)
    if line is not None:
        writing.fill(line, scene)
