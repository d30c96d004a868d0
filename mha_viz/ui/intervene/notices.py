"""What a part of the page says where it has no answer, and how the parts keep in step.

Knows Streamlit and our exception tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from mha_viz.errors import MhaVizError
from mha_viz.ui import state
from mha_viz.ui.messages import plain


@contextmanager
def said() -> Iterator[None]:
    """Say an error that the user can mend; the page goes on below it.

    `messages.shown` ends the page instead, and would take away what is needed to mend it.
    """
    try:
        yield
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/error:")


def drawn_with(*what: object) -> None:
    """The switches have been drawn with this."""
    st.session_state.switches_drawn = what


def keep_in_step(*what: object) -> None:
    """Run the whole page again where the switches above are drawn with anything else.

    A part that reruns alone changes what they show: the chosen head, a measured importance.
    """
    if st.session_state.get("switches_drawn", what) != what:
        state.publish()
        st.rerun()
