"""The demos as one app, a page for each, so that one server does for all of them."""

import streamlit as st
from streamlit import runtime

from mha_viz.ui.run.ready import run_mark

PAGES = ("demo_components.py", "demo_figures.py", "demo_flow.py", "demo_switches.py")

if runtime.exists():  # not while a test runner looks for doctests
    page = st.navigation([st.Page(page) for page in PAGES], position="hidden")
    with run_mark():
        page.run()
