"""Explore: type a sentence, see every head, read one. Pick, compute, draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from mha_viz.ui.explore import picking
from mha_viz.ui.run import memory
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls

if TYPE_CHECKING:
    from mha_viz.ui.run.scene import Scene


def page() -> None:
    """Draw the Explore page."""
    look.projector()
    look.heading("Every attention head, on your sentence")
    scene = picking.picked(_fit)
    from mha_viz.ui.explore import drawing

    runs = scene.stored is None  # a stored run waits for no model, and predicts nothing
    row, panel = st.container(horizontal=True, vertical_alignment="center"), st.container()
    switch, place = row.empty(), row.empty()  # empty at once where this text has neither
    line, is_playing = None, False
    if runs:
        memory.await_transformers()
        from mha_viz.ui.explore import writing

        with panel:
            scene = writing.continued(scene, switch)
        is_playing = writing.is_playing(scene)
        line = writing.announce(place, scene)
    hint = st.empty()  # an element that a run without one empties at once, not at its end
    if look_for := controls.example_hint():
        hint.caption(f":material/lightbulb: {look_for}")
    drawing.heads(scene, in_motion=is_playing)
    if line is not None:
        writing.fill(line, scene)


def _fit(scene: Scene) -> None:
    from mha_viz.ui.explore.drawing import fit_grid

    fit_grid(scene)
