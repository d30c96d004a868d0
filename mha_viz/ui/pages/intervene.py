"""Intervene: switch heads off and see what the model says then. Pick, compute, draw."""

from __future__ import annotations

from mha_viz.ui.session import memory, state
from mha_viz.ui.widgets import look, picking


def page() -> None:
    """The Intervene page."""
    look.page_style()
    look.heading("Switch heads off")
    scene = picking.picked()
    memory.late("mha_viz.ui.intervene").draw(scene)
    state.publish()
