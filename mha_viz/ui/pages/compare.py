"""Compare: heads across layers, with each other, between texts and models. Pick, compute, draw."""

from __future__ import annotations

from mha_viz.ui.session import memory, state, views
from mha_viz.ui.widgets import choosing, look, picking


def page() -> None:
    """The Compare page."""
    look.page_style()
    look.heading("Compare heads")
    scene = picking.picked(lambda scene: memory.late("mha_viz.ui.compare").fit(scene))
    choosing.segments("section", "Compare", views.SECTIONS, label_visibility="collapsed")
    memory.late("mha_viz.ui.compare").draw(scene)
    state.publish()
