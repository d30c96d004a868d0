"""The page on which pupils join a class, and the pages of a class that follow its lesson.

Must not import torch.
"""

import time
from dataclasses import replace

import streamlit as st

from mha_viz.core.reprs import count
from mha_viz.errors import ClassError
from mha_viz.learn.frame import classroom, layout, questions
from mha_viz.learn.frame.lesson_plan import STOPS, Stop, link
from mha_viz.ui.operating import streamlit_run
from mha_viz.ui.state.class_answers import CODE
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets.exports.share_link import show_link
from mha_viz.ui.widgets.messages.notices import plain, stop_on_error

ADDRESS = "class"
_OPEN = "class-open-page"
_ON_THE_WAY = "class-on-the-way"  # the move for which this browser opens another page
_SETTLE_SECONDS = 0.5  # seconds in which a browser hears of a run, and its last questions arrive
_TEACH_PAGE = "teach"  # the page on which a teacher stays while the class moves on


def draw() -> None:
    """Draw the page: a field for the code, or where the class is and how others join it."""
    layout.sidebar()
    st.title("Join the class", anchor=False)
    with stop_on_error():
        if not classroom.permitted():
            st.markdown(classroom.NO_CLASSES)
        elif (code := classroom.code()) is None:
            _ask_code()
        else:
            _members(code)


def _ask_code() -> None:
    typed = st.text_input("Code of the class", key="class-code", max_chars=2 * CODE, width=200)
    if not typed.strip():
        st.caption("Your teacher shows it. Nothing about you is asked or kept.")
    elif classroom.join(typed.strip().lower()):
        st.rerun()
    else:
        st.warning(f"There is no class {plain(typed)} here. Compare the code with the one shown.")


def _members(code: str) -> None:
    st.markdown(f"Open **{plain(link(ADDRESS, {}))}** and type the code:")
    with st.container(key="class-code-shown"):
        st.title(code, anchor=False)
    if classroom.leads():
        show_link(link(ADDRESS, {classroom.PARAM: code}), key="class")
    else:
        st.markdown("This page opens each stop of the lesson when your teacher goes there.")
    count_pupils()


@st.fragment(run_every=classroom.REFRESH_SECONDS)
def count_pupils() -> None:
    """Draw how many browsers have joined the class."""
    with classroom.continue_without_class():
        joined = count(classroom.size(), "pupil’s browser", "pupils’ browsers")
        st.caption(f"{joined} in the class.", width="content")


def follow(page: str) -> bool:
    """Join the class that the address names, and keep the open page where the class is.

    For the start of every run. A stop whose page is no lab asks its question here, above the page;
    return False where the page is not to be drawn before the answer. Where the class cannot be
    reached, the page is drawn without it.
    """
    try:
        return _follow(page)
    except ClassError as error:
        _wait_for_class(str(error))
    return True


def _follow(page: str) -> bool:
    classroom.join_named_class()
    if classroom.code() is None:
        return True
    st.session_state[_OPEN] = streamlit_run.page_hash()
    _arrive(page)
    if _is_due(page):
        _go()
    stop = _stop_at(classroom.current_stop().stop)
    classroom.set_page("" if stop is None else stop.page)
    _class_line(page)
    if stop is not None and stop.page == page and stop.question:
        question, intro = stop.vote_question, "**Predict before you switch heads off.**"
        question = replace(question, question=f"{intro} {plain(question.question)}")
        if not questions.ask(f"lesson-{page}", question, is_led=True):
            questions.rest_waits()
            return False
    return True


@st.fragment(run_every=classroom.REFRESH_SECONDS)
def _wait_for_class(reason: str) -> None:
    """Say why the class cannot be reached, and draw the page again once it can."""
    if streamlit_run.is_partial():  # the run of the whole page has just tried
        try:
            classroom.check()
        except ClassError as error:
            reason = str(error)
        else:
            st.rerun()
    st.warning(plain(reason))


def _stop_at(number: int) -> Stop | None:
    """Return a stop of the lesson, from 1; None where there is none of this number."""
    return STOPS[number - 1] if 1 <= number <= len(STOPS) else None


def _arrive(page: str) -> None:
    """Note that the page of a move is open. A run that should open it may be overtaken by another.

    That of the old page, which comes then, goes again.
    """
    stop, moves = classroom.current_stop()
    target = _stop_at(stop)
    if st.session_state.pop(_ON_THE_WAY, None) == moves and target and target.page == page:
        st.session_state[_moves_key()] = moves


def _moves_key() -> str:
    return f"class-moves-{classroom.code()}"


def _is_due(page: str) -> bool:
    """Return whether the class was brought to a stop since this page was opened or last went."""
    stop, moves = classroom.current_stop()
    moves_key, leads = _moves_key(), classroom.leads()
    moved = moves > st.session_state.setdefault(moves_key, moves)
    if leads and page == _TEACH_PAGE:  # this window brings the class on; its others follow
        st.session_state[moves_key] = moves
        return False
    return _stop_at(stop) is not None and (moved or (page == ADDRESS and not leads))


def _go() -> None:
    """Open the stop where the class is."""
    # What the browser asks of the old page's fragments until it hears of this run would be run for
    # the old page after the new one is drawn, and Streamlit would empty that.
    time.sleep(_SETTLE_SECONDS)
    stop, moves = classroom.current_stop()
    st.session_state[_ON_THE_WAY] = moves
    session().page = ADDRESS  # no stop is there: each opens anew, also where it is open already
    st.switch_page(session().pages[STOPS[stop - 1].page], query_params=STOPS[stop - 1].params)


@st.fragment(run_every=classroom.REFRESH_SECONDS)
def _class_line(page: str) -> None:
    """Say which class this page is in and where that is, with a link; go where it was brought."""
    with classroom.continue_without_class():
        if streamlit_run.is_partial() and _is_due(page):
            st.rerun()
        if streamlit_run.page_hash() != st.session_state[_OPEN]:
            st.switch_page(session().pages[page])  # it was emptied: see `_go`
        code, pages = classroom.code(), session().pages
        if code is None:
            return
        number = classroom.current_stop().stop
        stop = _stop_at(number)
        with st.container(horizontal=True, vertical_alignment="center", key="class-line"):
            at = f" Stop {number} of {len(STOPS)}." if stop is not None else ""
            st.caption(f"Class **{plain(code)}**: {classroom.role()}.{at}", width="content")
            target = ADDRESS if stop is None else stop.page
            if target in pages and target != page:
                label = "The class" if stop is None else f"Go to {stop.title}"
                st.page_link(
                    pages[target],
                    label=label,
                    icon=":material/groups:",
                    query_params={} if stop is None else stop.params,
                )
