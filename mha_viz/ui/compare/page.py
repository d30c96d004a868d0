"""Compare: heads across layers, with each other, between texts and models. Pick, compute, draw."""

from __future__ import annotations

from mha_viz.ui.run import memory
from mha_viz.ui.state import state, views
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, picking


def page() -> None:
    """Draw the Compare page."""
    look.page_style()
    look.heading("Compare heads")
    scene = picking.picked(lambda scene: memory.late("mha_viz.ui.compare.sections").fit(scene))
    choosing.segments("section", "Compare", views.SECTIONS, label_visibility="collapsed")
    memory.late("mha_viz.ui.compare.sections").draw(scene)
    state.push_url()
