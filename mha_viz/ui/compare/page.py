"""Compare: heads across layers, with each other, between texts and models. Pick, compute, draw."""

from mha_viz.ui.state import views
from mha_viz.ui.widgets.controls import picking


def page() -> None:
    """Draw the Compare page."""
    picking.sectioned_page("compare", "Compare heads", "section", views.SECTIONS)
