"""The web app: `streamlit run app.py`.

The server imports this file for `app`; for each page it then runs it as a script.
"""

import streamlit as st
from starlette.middleware import Middleware

from mha_viz.ui.learn import glossary, lesson
from mha_viz.ui.learn.contents import LABS
from mha_viz.ui.operating import figures
from mha_viz.ui.pages import circuits, compare, corpus, explore, intervene, learn
from mha_viz.ui.server import (
    endpoints,
    first_page,
    gate,
    headers,
    operating,
    stopping,
    uploads,
)
from mha_viz.ui.session import coming_back, giving_way, memory, places, state
from mha_viz.ui.widgets import full, look

if __name__ != "__main__":
    operating.begin()
    before = (
        headers.SafeHeaders,
        endpoints.Endpoints,
        gate.Gate,
        uploads.Uploads,
        first_page.FirstPage,
    )
    app = st.App(
        __file__, lifespan=stopping.quietly, middleware=[Middleware(each) for each in before]
    )
else:
    st.set_page_config(
        page_title="mha_viz",
        page_icon=str(look.ICON),  # a file: named icons and emoji are fetched from elsewhere
        layout="wide",
        initial_sidebar_state=256,
        menu_items={"About": "mha_viz: see and measure every attention head."},
    )
    tools = {
        "explore": st.Page(explore.page, title="Explore", url_path="explore", default=True),
        "compare": st.Page(compare.page, title="Compare", url_path="compare"),
        "circuits": st.Page(circuits.page, title="Circuits", url_path="circuits"),
        "corpus": st.Page(corpus.page, title="Corpus", url_path="corpus"),
        "intervene": st.Page(intervene.page, title="Intervene", url_path="intervene"),
    }
    labs = {"learn": st.Page(learn.index, title="All labs", url_path="learn")} | {
        lab.address: st.Page(learn.page(lab), title=f"{number}. {lab.title}", url_path=lab.address)
        for number, lab in enumerate(LABS, 1)
    }
    labs["glossary"] = st.Page(glossary.draw, title="Glossary", url_path="glossary")
    labs["teach"] = st.Page(lesson.draw, title="For teachers", url_path="teach")
    st.session_state.pages = tools | labs
    page = st.navigation({"": list(tools.values()), "Learn": list(labs.values())}, position="top")
    state.arrive(page.url_path)
    coming_back.come_back()
    try:
        with giving_way.page_run(), figures.runs.timed(page.url_path or "explore"):
            page.run() if places.has_place() else full.draw()
    finally:
        memory.go_on()  # torch and transformers load behind the page, where it did not need them
