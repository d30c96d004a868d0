"""A lab in the list of labs: what it looks like, what it is about, and the way to it.

Knows streamlit; must not import torch or plotly: the list is there at once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

from mha_viz.learn.frame import frame
from mha_viz.learn.frame.contents import LABS, Lab
from mha_viz.ui.widgets import look

FOLDER = Path(__file__).with_name("pictures")  # written by docs/make_lab_pictures.py
SIZE = (360, 200)  # pixels; a narrow card shows a picture smaller, and none shows it larger


def draw(lab: Lab) -> None:
    """Draw the card; its style sheet makes all of it lead to the lab."""
    with st.container(border=True, gap="xxsmall", key=f"lab-card-{lab.key}"):
        st.image(picture(lab, dark=look.dark()), alt=lab.pictured)
        label = f"**{LABS.index(lab) + 1}. {lab.title}**"
        st.page_link(st.session_state.pages[lab.address], label=label)
        st.caption(f"{lab.about} {frame.plan(lab)}")


@cache
def picture(lab: Lab, *, dark: bool) -> bytes:
    """Read the PNG file of the lab's most telling figures, in the colours of a page."""
    return (FOLDER / f"{lab.key}-{'dark' if dark else 'light'}.png").read_bytes()
