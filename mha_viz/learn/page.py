"""Learn: the list of labs, and the page that each of them is drawn on."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import streamlit as st

from mha_viz.learn.frame import block_map, layout, questions
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.contents import BY_KEY, LABS, ROUTES, START, Lab
from mha_viz.learn.frame.texts import read_texts
from mha_viz.ui.pages import TITLES
from mha_viz.ui.run import late_imports
from mha_viz.ui.run.page_lock import one_thread
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages import notices
from mha_viz.web.labels import png_address

FOLDER = Path(__file__).with_name("frame") / "pictures"  # by docs/make_lab_pictures.py
SIZE = (360, 200)  # pixels; a narrow card shows a picture smaller, and none shows it larger


def index() -> None:
    """Draw the list of all labs, in order."""
    layout.sidebar()
    st.title("Learn multi-head attention", anchor=False)
    st.markdown(
        "Short labs with real numbers, made by the same functions that draw and measure heads "
        "elsewhere in the app. Each has an address of its own that opens it as you left it."
    )
    pages = session().pages
    drawn, listed = st.columns((1, 3), gap="large")
    with listed:
        with st.container(border=True, gap="xxsmall", key="start-card"):
            st.page_link(pages[START.key], label=f"**{START.title}**", icon=":material/route:")
            st.markdown(f"{START.about} A sentence of yours, through every number of a real model.")
            st.caption(f"Afterwards you can {START.goal}. About {START.minutes} minutes.")
        _routes()
    with listed, st.container(key="lab-cards"):
        for lab in LABS:
            # The style sheet makes all of the card lead to the lab.
            with st.container(border=True, gap="xxsmall", key=f"lab-card-{lab.key}"):
                st.image(_picture(lab, dark=look.dark()), alt=lab.picture.alt)
                label = f"**{LABS.index(lab) + 1}. {lab.title}**"
                st.page_link(pages[lab.address], label=label)
                st.caption(f"{lab.about} {layout.plan(lab)}")
    with drawn:  # last: on a phone it is below the labs
        st.markdown("**The map.** Each block leads to the page that is about it.")
        block_map.draw()
    with st.container(border=True, gap="xxsmall"):
        st.page_link(pages["teach"], label="**For teachers**")
        st.caption("A lesson of 45 minutes, with a link to hand out and the votes of your class.")
    with st.container(border=True, gap="xxsmall"):
        st.page_link(pages["glossary"], label="**Glossary**")
        st.caption("Terms, symbols, shapes and quantities; and what is often believed about heads.")


def start() -> None:
    """Draw the first page: one sentence on its way through a small model."""
    layout.sidebar()
    choices = Choices(START)
    session().shown_problems = []
    st.title(START.title, anchor=False)
    problems = st.container()
    with notices.stop_on_error():
        late_imports.await_torch()
        with late_imports.importing():
            from mha_viz.learn.start.page import draw
        with one_thread():
            draw(choices)
        choices.publish()
    with problems:
        notices.problems(session().shown_problems)


def _routes() -> None:
    """Draw the ways through the labs, by the time that they take."""
    pages = session().pages
    for route in ROUTES:
        st.markdown(f"**{route.minutes} minutes.** {route.about}")
        with st.container(horizontal=True, gap="small", key=f"route-{route.minutes}"):
            st.page_link(pages[START.key], label="Start here", width="content")
            for lab in map(BY_KEY.__getitem__, route.labs):
                label = f"{LABS.index(lab) + 1}. {lab.title}"
                st.page_link(pages[lab.address], label=label, width="content")


@cache
def _picture(lab: Lab, *, dark: bool) -> str:
    """Read the PNG file of the lab's most telling figures, in the colours of a page, as an address.

    Streamlit forgets a file as soon as its page runs again, and a slow browser asks for it later.
    """
    return png_address((FOLDER / f"{lab.key}-{'dark' if dark else 'light'}.png").read_bytes())


def page(lab: Lab) -> Callable[[], None]:
    """Return the page of one lab."""

    def draw() -> None:
        session().shown_problems = []
        layout.sidebar(lab)
        choices = Choices(lab)
        layout.begin(lab)
        problems = st.container()
        with notices.stop_on_error():
            module = _module(lab)
            with one_thread():  # labs compute on tiny matrices
                module.draw(choices)
                _end(choices)
            choices.publish()
        with problems:  # where a text is picked, some have been said beside it
            notices.problems(session().shown_problems)
        layout.onward(lab)

    draw.__name__ = lab.address.replace("-", "_")
    return draw


@cache
def _module(lab: Lab) -> ModuleType:
    """Import the module that draws a lab."""
    with late_imports.importing():
        return import_module(lab.module)


def _end(choices: Choices) -> None:
    """Draw the lab's `learned`, the question `exit` of its texts.toml, and links to its `next`."""
    lab, pages = choices.lab, session().pages
    st.header("What you now know", anchor=False)
    st.markdown("\n".join(f"- {sentence}" for sentence in lab.learned))
    _exit_question(choices)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown("**Open next:**")
        for key in lab.next:
            page = f"lab-{key}" if key in BY_KEY else key
            name = BY_KEY[key].title if key in BY_KEY else TITLES[key]
            if page in pages:
                st.page_link(pages[page], label=name, icon=":material/arrow_forward:")


@layout.part
def _exit_question(choices: Choices) -> None:
    read_texts(choices.lab.module.removesuffix(".page")).predict(choices, questions.EXIT)
