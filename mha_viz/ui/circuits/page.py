"""Circuits: how heads work together, across layers. Pick, compute, draw."""

from __future__ import annotations

from mha_viz.ui.run import memory
from mha_viz.ui.state import state, views
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, picking


def page() -> None:
    """Draw the Circuits page."""
    look.page_style()
    look.heading("How heads work together")
    scene = picking.picked(lambda scene: memory.late("mha_viz.ui.circuits.sections").fit(scene))
    choosing.segments("circuit", "Circuits", views.CIRCUITS, label_visibility="collapsed")
    memory.late("mha_viz.ui.circuits.sections").draw(scene)
    state.push_url()
