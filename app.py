"""The web app: `streamlit run app.py`."""

import streamlit as st

from mha_viz.ui import look, memory
from mha_viz.ui.pages import compare, explore, intervene

st.set_page_config(
    page_title="mha_viz",
    page_icon=str(look.ICON),  # a file: named icons and emoji are fetched from elsewhere
    layout="wide",
    initial_sidebar_state=256,
    menu_items={"About": "mha_viz: see and measure every attention head."},
)
memory.warm_up()  # torch and transformers load behind the page, which takes text meanwhile
st.session_state.pages = {
    "explore": st.Page(explore.page, title="Explore", url_path="explore", default=True),
    "compare": st.Page(compare.page, title="Compare", url_path="compare"),
    "intervene": st.Page(intervene.page, title="Intervene", url_path="intervene"),
}
page = st.navigation(list(st.session_state.pages.values()), position="top")
st.session_state.page = page.url_path
page.run()
