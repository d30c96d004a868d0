"""What a part of the page says where it has no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from mha_viz.errors import MhaVizError
from mha_viz.ui.widgets.messages import plain


@contextmanager
def continue_on_error() -> Iterator[None]:
    """Say an error that the user can mend; the page goes on below it.

    `messages.stop_on_error` ends the page instead, and would take away what is needed to mend it.
    """
    try:
        yield
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/error:")
