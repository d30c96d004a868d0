"""The web app: `streamlit run app.py`.

The server imports this file for `app`; for each page it then runs it as a script.
"""

import streamlit as st
from starlette.middleware import Middleware

from mha_viz.learn import page as learn
from mha_viz.learn.frame import class_page, glossary, lesson
from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.compare import page as compare
from mha_viz.ui.heads import page as heads
from mha_viz.ui.many_texts import page as many_texts
from mha_viz.ui.operating import page_times, streamlit_run
from mha_viz.ui.pages import FIRST, PAGES, TITLES
from mha_viz.ui.run import admission, page_lock, ready
from mha_viz.ui.server import endpoints, gate, headers, lifecycle, page_style, uploads, websockets
from mha_viz.ui.state import selection
from mha_viz.ui.state.session import session
from mha_viz.ui.why import page as why
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages import notices

if __name__ != "__main__":
    lifecycle.begin()
    before = headers.SafeHeaders, endpoints.Endpoints, gate.Gate, websockets.Websockets
    behind = uploads.Uploads, gate.FormerPages, page_style.PageStyle
    middleware = [Middleware(each) for each in (*before, *behind)]
    app = st.App(__file__, lifespan=lifecycle.quietly, middleware=middleware)
else:
    st.set_page_config(
        page_title="mha_viz",
        page_icon=look.ICON,  # named icons and emoji are fetched from elsewhere
        layout="wide",
        initial_sidebar_state=256,
        menu_items={"About": "mha_viz: see and measure every attention head."},
    )
    tools = {}
    for key, module in zip(PAGES, (heads, compare, why, many_texts), strict=True):
        looks = {"title": TITLES[key], "url_path": key, "default": key == FIRST}
        tools[key] = st.Page(module.page, **looks)
    labs = {
        "start": st.Page(learn.start, title="Start here", url_path="start"),
        "learn": st.Page(learn.index, title="All labs", url_path="learn"),
    } | {
        lab.address: st.Page(learn.page(lab), title=f"{number}. {lab.title}", url_path=lab.address)
        for number, lab in enumerate(LABS, 1)
    }
    labs["glossary"] = st.Page(glossary.draw, title="Glossary", url_path="glossary")
    labs["teach"] = st.Page(lesson.draw, title="For teachers", url_path="teach")
    labs["class"] = st.Page(class_page.draw, title="Join the class", url_path="class")
    session().pages = tools | labs
    page = st.navigation({"": list(tools.values()), "Learn": list(labs.values())}, position="top")
    selection.on_page_enter(page.url_path)
    streamlit_run.run_after_reconnection()
    look.projector()
    is_shown = class_page.follow(page.url_path or FIRST)
    try:
        timed = page_times.runs.timed(page.url_path or "heads")
        with ready.run_mark(), page_lock.page_run(), timed:
            if not admission.is_admitted():
                notices.server_full()
            elif is_shown:
                page.run()
    finally:
        lifecycle.go_on()  # the libraries load behind the page, where it did not need them
