"""Many texts: what every head does in general. Pick, compute, draw."""

from mha_viz.ui.heads import picking
from mha_viz.ui.state import selection
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages import notices


def page() -> None:
    """Draw the page Many texts."""
    look.heading("Every head over many texts")
    selection.sync_from_url()
    with notices.stop_on_error():
        bar, _ = picking.bar_and_model()
        from mha_viz.ui.many_texts import sections

        sections.draw(bar.middle)
    selection.push_url()
