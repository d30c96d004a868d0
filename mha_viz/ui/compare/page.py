"""Compare: heads beside each other, heads that are alike, two models. Pick, compute, draw."""

from types import ModuleType

import streamlit as st

from mha_viz.ui.heads import picking
from mha_viz.ui.run import late_imports
from mha_viz.ui.state import selection, views
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing


def page() -> None:
    """Draw the Compare page."""
    if selection.address().get("section") == "layers":  # an older link
        selection.sync_from_url()
        selection.change(tiles=selection.of(views.Compare).metric)
        st.switch_page(session().pages["heads"], query_params=selection.share_params())
    look.heading("Compare heads")
    scene = picking.picked(lambda scene: _sections().fit(scene))
    with st.container(key="tabs"):  # page.css underlines the chosen one
        choosing.segments("section", "Compare", views.SECTIONS, label_visibility="collapsed")
    _sections().draw(scene)
    selection.push_url()


def _sections() -> ModuleType:
    late_imports.await_transformers()
    from mha_viz.ui.compare import sections

    return sections
