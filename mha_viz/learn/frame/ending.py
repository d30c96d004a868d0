"""The end of every lab: its gain, one question to check it, and the pages to open next.

Knows streamlit; must not import torch or plotly.
"""

import streamlit as st

from mha_viz.learn.frame import frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.contents import BY_KEY
from mha_viz.learn.frame.texts import read_texts


def draw(choices: Choices) -> None:
    """Draw the lab's `learned`, the question `exit` of its texts.toml, and links to its `next`."""
    lab, pages = choices.lab, st.session_state.get("pages", {})
    st.header("What you now know", anchor=False)
    st.markdown("\n".join(f"- {sentence}" for sentence in lab.learned))
    _exit_question(choices)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown("**Open next:**")
        for key in lab.next:
            page = f"lab-{key}" if key in BY_KEY else key
            name = BY_KEY[key].title if key in BY_KEY else key.capitalize()
            if page in pages:
                st.page_link(pages[page], label=name, icon=":material/arrow_forward:")


@frame.part
def _exit_question(choices: Choices) -> None:
    read_texts(choices.lab.module.removesuffix(".page")).predict(choices, frame.EXIT)
