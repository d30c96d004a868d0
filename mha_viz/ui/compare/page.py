"""Compare: heads across layers, with each other, between texts and models. Pick, compute, draw."""

import streamlit as st

from mha_viz.ui.state import state, views
from mha_viz.ui.widgets.controls import picking


def page() -> None:
    """Draw the Compare page."""
    st.session_state.pins_counted = n = len(state.of(views.Compare).pins)
    titles = views.SECTIONS | ({"pins": f"{views.SECTIONS['pins']} ({n})"} if n else {})
    picking.sectioned_page("compare", "Compare heads", "section", titles)
