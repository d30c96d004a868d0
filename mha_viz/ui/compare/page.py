"""Compare: heads across layers, with each other, between texts and models. Pick, compute, draw."""

import streamlit as st

from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory
from mha_viz.ui.state import state, views


def page() -> None:
    """Draw the Compare page."""
    st.session_state.pins_counted = n = len(state.of(views.Compare).pins)
    titles = views.SECTIONS | ({"pins": f"{views.SECTIONS['pins']} ({n})"} if n else {})
    picking.sectioned_page("Compare", "Compare heads", "section", titles, _sections)


def _sections() -> picking.Sections:
    memory.await_transformers()
    from mha_viz.ui.compare import sections

    return sections
