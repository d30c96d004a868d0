"""The demos as one app, a page for each, so that one server does for all of them."""

import streamlit as st
from streamlit import runtime

from mha_viz.ui.run.ready import run_mark

DEMOS = ("demo_figures.py", "demo_flow.py", "demo_switches.py")


def nothing() -> None:
    """Draw nothing: the first page has no address of its own."""


if runtime.exists():  # not while a test runner looks for doctests
    pages = [st.Page(nothing, title="Demos"), *(st.Page(demo) for demo in DEMOS)]
    page = st.navigation(pages, position="hidden")
    with run_mark():
        page.run()
