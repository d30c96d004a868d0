"""Intervene: switch heads off and see what the model predicts then. Pick, compute, draw."""

from mha_viz.ui.heads import picking
from mha_viz.ui.intervene import AFTER_TEXT
from mha_viz.ui.run import memory
from mha_viz.ui.state import state
from mha_viz.ui.widgets import look


def page() -> None:
    """Draw the Intervene page."""
    look.projector()
    look.heading("Switch heads off")
    scene = picking.picked(parts=AFTER_TEXT)
    memory.await_transformers()
    from mha_viz.ui.intervene import sections

    sections.draw(scene)
    state.push_url()
