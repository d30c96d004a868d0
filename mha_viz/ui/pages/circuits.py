"""Circuits: how heads work together, across layers. Pick, compute, draw."""

from __future__ import annotations

from mha_viz.ui.session import memory, state, views
from mha_viz.ui.widgets import choosing, look, picking


def page() -> None:
    """The Circuits page."""
    look.page_style()
    look.heading("How heads work together")
    scene = picking.picked(lambda scene: memory.late("mha_viz.ui.circuits").fit(scene))
    choosing.segments("circuit", "Circuits", views.CIRCUITS, label_visibility="collapsed")
    memory.late("mha_viz.ui.circuits").draw(scene)
    state.publish()
