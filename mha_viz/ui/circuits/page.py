"""Circuits: how heads work together, across layers. Pick, compute, draw."""

from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory
from mha_viz.ui.state import views


def page() -> None:
    """Draw the Circuits page."""
    title = "How heads work together"
    picking.sectioned_page("Circuits", title, "circuit", views.CIRCUITS, _sections)


def _sections() -> picking.Sections:
    memory.await_transformers()
    from mha_viz.ui.circuits import sections

    return sections
