"""Corpus: what every head does over many texts. Pick, compute, draw."""

from __future__ import annotations

from mha_viz.ui.session import memory, state
from mha_viz.ui.widgets import look, messages, picking


def page() -> None:
    """The Corpus page."""
    look.page_style()
    look.heading("Every head over many texts")
    state.follow()
    with messages.stop_on_error():
        picking.picked_model()
        memory.late("mha_viz.ui.corpus").draw()
    state.publish()
