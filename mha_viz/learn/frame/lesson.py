"""The page for teachers: a route of 45 minutes, a class to open, and the link to hand out.

lesson_plan.toml lists the stops. Must not import torch, so that the first lines appear at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

from mha_viz.learn.frame import classroom, frame
from mha_viz.learn.frame.contents import LABS, read_records
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.state import own_address
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports.share_link import show_link
from mha_viz.ui.widgets.messages.messages import plain, stop_on_error

_TITLES = {lab.address: f"{number}. {lab.title}" for number, lab in enumerate(LABS, 1)}


@dataclass(frozen=True)
class Stop:
    """One stop of the lesson.

    Args:
        page: its address in the app.
        minutes: that it takes.
        do: the activity of the class.
        question: a question for the class before anything is shown.
        often: frequent wrong answers of pupils, with the reason.
        solution: the right answer, with the numbers that show it.
        params: the case that question and solution are about, as parameters of the address.
    """

    page: str
    minutes: int
    do: str
    question: str
    often: str
    solution: str
    params: Mapping[str, str] = field(default_factory=dict)


STOPS = read_records(Stop, Path(__file__).with_name("lesson_plan.toml"), "stop")


def draw() -> None:
    """Draw the page: the class, its link, and the stops of the lesson."""
    look.projector()
    frame.sidebar()
    st.title("For teachers", anchor=False)
    st.markdown(
        "A lesson of 45 minutes on multi-head attention, for pupils who can multiply matrices. "
        "Each stop has a question to ask before anything is shown, what is often answered, and "
        "the solution."
    )
    with stop_on_error():
        _class()
        st.header("The route", anchor=False)
        for number, stop in enumerate(STOPS, 1):
            _stop(number, stop)


def _class() -> None:
    """Draw the button that opens or ends a class, and the link that leads into it."""
    st.header("Your class", anchor=False)
    if settings().public:
        st.markdown(f"{classroom.NO_CLASSES} The lesson itself needs none. It starts at this link:")
        first: dict[str, str] = {}
    elif not classroom.leads():
        st.markdown(
            "Open a class, and each lab counts what pupils predict before they see the answer. "
            "You see how many have answered, and bars once you show the answer. Nobody sees "
            "names. The votes are in this server’s memory only, until you end the class or the "
            "server stops."
        )
        st.button(
            "Open a class", type="primary", key="class-open", on_click=guarded(classroom.begin)
        )
        first = {}
    else:
        st.markdown(f"The class **{classroom.code()}** is open. Its pupils start at this link:")
        st.button("End the class", key="class-end", on_click=guarded(classroom.end))
        first = {classroom.PARAM: classroom.code() or ""}
    show_link(link(STOPS[0].page, first), key="lesson")


def link(page: str, params: dict[str, str]) -> str:
    """Return the address of a page of this app, as pupils open it."""
    base = own_address.reached().url.rpartition("/")[0]
    return f"{base}/{page}" + (f"?{urlencode(params)}" if params else "")


def _stop(number: int, stop: Stop) -> None:
    pages = st.session_state.get("pages", {})
    title = _TITLES.get(stop.page, "Intervene")
    with st.container(border=True):
        if stop.page in pages:
            st.page_link(pages[stop.page], label=f"**{title}**", query_params=stop.params)
        st.caption(f"Stop {number}, {stop.minutes} minutes")
        st.markdown(plain(stop.do))
        st.markdown(f"**Ask:** {plain(stop.question)}")
        with st.expander("What is often answered, and the solution"):
            st.markdown(f"**Often answered:** {plain(stop.often)}")
            st.markdown(f"**Solution:** {plain(stop.solution)}")
