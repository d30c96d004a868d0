"""Corpus: what every head does over many texts. Pick, compute, draw."""

from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory
from mha_viz.ui.state import state
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages import messages


def page() -> None:
    """Draw the Corpus page."""
    look.projector()
    look.heading("Every head over many texts")
    state.sync_from_url()
    with messages.stop_on_error():
        picking.picked_model()
        from mha_viz.ui.corpus import sections

        memory.has_studies.set()
        sections.draw()
    state.push_url()
