"""Compare: heads beside each other, heads that are alike, two models. Pick, compute, draw."""

import streamlit as st

from mha_viz.ui.heads import picking
from mha_viz.ui.run import late_imports
from mha_viz.ui.state import selection, views
from mha_viz.ui.state.session import session


def page() -> None:
    """Draw the Compare page."""
    if selection.address().get("section") == "layers":  # an older link
        selection.sync_from_url()
        selection.change(tiles=selection.of(views.Compare).metric)
        st.switch_page(session().pages["heads"], query_params=selection.share_params())
    picking.sectioned_page("Compare", "Compare heads", "section", views.SECTIONS, _sections)


def _sections() -> picking.Sections:
    late_imports.await_transformers()
    from mha_viz.ui.compare import sections

    return sections
