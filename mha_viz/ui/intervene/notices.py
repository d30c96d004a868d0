"""What a part of the page shows where it has no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from mha_viz.errors import MhaVizError
from mha_viz.ui.widgets.messages import plain


@contextmanager
def continue_on_error() -> Iterator[None]:
    """Show an error that the user can mend; the page goes on below it.

    `messages.stop_on_error` would end the page, and take away what is needed to mend the error.
    """
    try:
        yield
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/error:")
