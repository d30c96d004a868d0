"""Sections that are made, and sent to the browser, only while somebody has them open."""

from collections.abc import Callable

import streamlit as st

from mha_viz.ui.run.ready import fragment
from mha_viz.ui.state.session import from_browser
from mha_viz.ui.widgets.messages.notices import stop_on_error

WAIT_TEXT = "One moment …"  # seen between the click and the run that it causes
EXPORT = "Export", ":material/download:"  # label and icon


def in_expander(title: str, key: str, draw: Callable[[], object]) -> None:
    """Draw an expander; opening it reruns the fragment or page that it stands in."""
    with st.expander(title, on_change="rerun", key=key) as folded:
        if folded.open:
            with stop_on_error():
                draw()


def in_popover(label: str, icon: str, key: str, draw: Callable[[], object]) -> None:
    """Draw a popover no wider than its label.

    Streamlit places a menu when it opens, before the contents have come. page.css therefore keeps
    their height from the beginning: where it is lacking below the button, the menu opens above it.
    """
    folded = st.popover(label, icon=icon, width="content", on_change="rerun", key=key)
    with folded, st.container(key=f"{key}-menu"):
        if folded.open:
            with stop_on_error():
                draw()
        else:
            st.caption(WAIT_TEXT)


def table_and_export(
    key: str, table: Callable[[], object], files: Callable[[], object], title: str = "As a table"
) -> None:
    """Draw an expander with a figure's numbers and a menu with its files."""
    # An open table needs all of a phone's width.
    beside = not from_browser(f"{key}-table")
    with st.container(horizontal=beside, horizontal_alignment="left" if beside else "right"):
        in_expander(title, f"{key}-table", table)
        in_popover(*EXPORT, f"{key}-export", files)


# Fragments of their own: opening them does not draw the page again. A fragment takes all the width
# of the container that it stands in.
expander = fragment(in_expander)
popover = fragment(in_popover)
