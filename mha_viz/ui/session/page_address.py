"""The address of a page that was opened without parameters, completed in place.

What it does in the browser is decided in page_address.js.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from urllib.parse import urlencode

import streamlit as st

from mha_viz.web.browser import script


def complete(page: str, params: Mapping[str, str]) -> None:
    """Add parameters to the browser's address without a new step in its history.

    Streamlit's own way to write parameters adds a step: Back would stop at the page twice.

    Args:
        page: the path that the address has, without a slash before it.
        params: what is written behind it, where nothing else has been written meanwhile.
    """
    _component()(key="page-address", data={"page": page, "query": urlencode(params)})


@cache
def _component() -> Callable[..., object]:
    # Not at import, as elsewhere: the server imports this before it can take components.
    return st.components.v2.component("mha_viz.page_address", js=script("page_address"))
