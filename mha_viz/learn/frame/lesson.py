"""The page for teachers: a lesson of 45 minutes, a class to open and to lead, sheets to print.

Must not import torch, so that the first lines appear at once.
"""

from functools import partial

import streamlit as st

from mha_viz.learn.frame import class_page, classroom, layout
from mha_viz.learn.frame.lesson_plan import PHASES, STOPS, Phase, Stop, link, sheet
from mha_viz.ui.state import own_address
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports.share_link import sheet_buttons, show_link
from mha_viz.ui.widgets.messages.notices import plain, stop_on_error

_PROJECTOR = ":material/open_in_new: Open a window for the projector"


def draw() -> None:
    """Draw the page: the class, its link, and the phases and stops of the lesson."""
    layout.sidebar()
    st.title("For teachers", anchor=False)
    with stop_on_error():
        may_lead = classroom.may_lead()
    if not may_lead:
        st.markdown(
            "This server keeps one class. Its teacher opens this page with the link that was "
            "printed when the server started."
        )
        return
    if classroom.LEAD in st.query_params:  # the class may look at this screen
        own_address.complete("teach", {})
    st.markdown(
        "A lesson of 45 minutes on multi-head attention, for pupils who can multiply matrices. "
        "Each stop has a question that the class votes on, a sheet to print, and the solutions."
    )
    with stop_on_error():
        _class()
        st.header("The lesson", anchor=False)
        opening, closing = PHASES
        _phase(opening)
        for number, stop in enumerate(STOPS, 1):
            _stop(number, stop)
        _phase(closing)


def _class() -> None:
    """Draw the button that opens or ends a class, and the link that leads into it."""
    st.header("Your class", anchor=False)
    if not classroom.permitted():
        st.markdown(f"{classroom.NO_CLASSES} The lesson can be given without one.")
        show_link(link(STOPS[0].page, {}), key="lesson")
        return
    if not classroom.leads():
        st.markdown(
            "Open a class: its pages follow you from stop to stop, and each lab counts what the "
            "pupils predict before you show them the answer. This page shows how many have joined "
            "and answered, and bars; the projector shows bars with the answer. Nobody sees names. "
            "The votes are in this server’s memory only, until you end the class or the server "
            "stops."
        )
        st.button(
            "Open a class", type="primary", key="class-open", on_click=guarded(classroom.begin)
        )
        return
    code = classroom.code() or ""
    st.markdown(f"The class **{code}** is open. Pupils join it at this link, or type the code:")
    show_link(link("class", {classroom.PARAM: code}), key="lesson")
    with st.container(horizontal=True, vertical_alignment="center"):
        class_page.count_pupils()
        # Relative, and a link of Markdown: another host would be another browser to the class, and
        # a page that is opened in this window would leave the lesson.
        st.markdown(f"[{_PROJECTOR}](./class?{look.PROJECTOR}=1)", width="content")
        st.button("End the class", key="class-end", on_click=guarded(classroom.end))


def _phase(phase: Phase) -> None:
    with st.container(border=True):
        st.markdown(f"**{phase.title}**")
        st.caption(f"{phase.minutes} minutes")
        st.markdown(plain(phase.do))


def _stop(number: int, stop: Stop) -> None:
    pages, question = session().pages, stop.vote_question
    with st.container(border=True):
        if stop.page in pages:
            st.page_link(pages[stop.page], label=f"**{stop.title}**", query_params=stop.params)
        st.caption(f"Stop {number}, {stop.minutes} minutes")
        st.markdown(plain(stop.do))
        st.markdown(f"**Ask:** {plain(question.question)}")
        if classroom.leads():
            is_current = classroom.current_stop().stop == number
            st.button(
                "The class is here" if is_current else "Bring the class here",
                icon=":material/location_on:" if is_current else ":material/arrow_forward:",
                key=f"class-bring-{number}",
                help="All pages of the class open this stop; pages that went elsewhere come back.",
                on_click=guarded(partial(classroom.bring, number)),
            )
            classroom.answers(stop.vote_key)
            classroom.answer_button(stop.vote_key)
        else:
            st.markdown("\n".join(f"- {plain(option)}" for option in question.options))
        with st.expander("What is often answered, solutions, sheets"):
            right = question.options[question.right]
            st.markdown(f"**Right:** {plain(right)}. {plain(question.because)}")
            st.markdown(f"**Often answered:** {plain(stop.often)}")
            for exercise in stop.exercise:
                st.markdown(f"**Exercise:** {plain(exercise.ask)}")
                st.markdown(f"**Solution:** {plain(exercise.solution)}")
                if exercise.params and "heads" in pages:
                    label = "L{layer} H{head} of {model}".format_map(exercise.params)
                    st.page_link(pages["heads"], label=label, query_params=exercise.params)
            links = [link("heads", task.params) if task.params else "" for task in stop.exercise]
            make = partial(sheet, number, link(stop.page, stop.params), links)
            with st.container(horizontal=True):
                sheet_buttons(make, f"stop-{number}", key=f"lesson-sheet-{number}")
