"""Learn: the list of labs, and the page that each of them is drawn on."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from mha_viz.learn.frame import block_map, frame, lab_card
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.contents import LABS, Lab
from mha_viz.ui.run import memory
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages import messages


def index() -> None:
    """Draw the list of all labs, in order."""
    look.page_style()
    frame.sidebar()
    st.title("Learn multi-head attention", anchor=False)
    st.markdown(
        "Short labs with real numbers, made by the same functions that draw and measure heads "
        "elsewhere in the app. Each has an address of its own that opens it as you left it."
    )
    pages = st.session_state.pages
    drawn, listed = st.columns((1, 3), gap="large")
    with drawn:
        st.markdown("**The map.** Each block leads to the page that is about it.")
        block_map.draw()
    with listed, st.container(key="lab-cards"):
        for lab in LABS:
            lab_card.draw(lab)
    with st.container(border=True, gap="xxsmall"):
        st.page_link(pages["teach"], label="**For teachers**")
        st.caption("A lesson of 45 minutes, with a link to hand out and the votes of your class.")
    with st.container(border=True, gap="xxsmall"):
        st.page_link(pages["glossary"], label="**Glossary**")
        st.caption("Terms, symbols, shapes and quantities; and what is often believed about heads.")


def page(lab: Lab) -> Callable[[], None]:
    """Return the page of one lab."""

    def draw() -> None:
        st.session_state.shown_problems = []
        look.page_style()
        frame.sidebar(lab)
        choices = Choices(lab)
        frame.begin(lab)
        problems = st.container()
        with messages.stop_on_error():
            memory.late(lab.module).draw(choices)
        with problems:  # where a text is picked, some have been said beside it
            messages.problems(st.session_state.shown_problems)
        frame.onward(lab)

    draw.__name__ = lab.address.replace("-", "_")
    return draw
