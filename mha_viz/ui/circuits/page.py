"""Circuits: how heads work together, across layers. Pick, compute, draw."""

from mha_viz.ui.state import views
from mha_viz.ui.widgets.controls import picking


def page() -> None:
    """Draw the Circuits page."""
    picking.sectioned_page("circuits", "How heads work together", "circuit", views.CIRCUITS)
