"""A class on this server: pages join it by a link or a code, follow its teacher and vote.

Knows streamlit; must not import torch.
"""

import re
import secrets
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import streamlit as st

from mha_viz.core.reprs import count
from mha_viz.errors import ClassError
from mha_viz.ui.operating import streamlit_run
from mha_viz.ui.operating.refusals import refused, sentence
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.state.class_answers import CODE, LessonPosition, classes, first_class
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.browser import component_script

PARAM = "class"  # in the address that is handed out
LEAD = "lead"  # in the address that the command prints for the teacher
COOKIE = "mha_viz_class"  # a random name, by which a page that is loaded again is known
REFRESH_SECONDS = 3  # seconds between two looks at the votes
# Strangers could push a teacher's class out, and vote in it as often as they like.
NO_CLASSES = sentence("class")
_BROWSER, _JOINED = "class-browser", "class-joined"
_STOP_PAGE = "class-at-page"  # the page of the stop where the class is


def permitted() -> bool:
    """Return whether this server keeps classes: a public one keeps at most that of its teacher."""
    return settings().classroom or not settings().public


def may_lead() -> bool:
    """Return whether this browser may open a class and see the solutions of the lesson."""
    return not settings().classroom or _browser() == first_class()[1]


@contextmanager
def continue_without_class() -> Iterator[None]:
    """Show in one sentence that the class cannot be reached; the page goes on below."""
    try:
        yield
    except ClassError as error:
        st.warning(plain(str(error)))


def check() -> None:
    """Return if the classes of this server can be reached; otherwise raise ClassError."""
    classes().check()


def join_named_class() -> None:
    """Join the class that the address names, and remember it in the browser.

    A page without one is in the class that its browser has joined, or leads: most addresses do not
    name it, and none but that of its teacher can say who leads it, because addresses are handed on.
    """
    named = st.query_params.get(PARAM, "")[:CODE]
    if not permitted():
        if named:
            st.caption(NO_CLASSES)
        return
    if named:
        st.session_state[_JOINED] = named
        join(named)
    elif _JOINED not in st.session_state and (former := _former_class()) is not None:
        st.session_state[_JOINED] = former
    joined = st.session_state.get(_JOINED)
    if joined is None:
        return
    if joined in classes():
        _cookie()(key="class-cookie-script", data={"name": COOKIE, "value": _browser()})
    else:
        st.caption("The class of this link is over: ask for a new link.")


def role() -> str:
    """Say what this browser is in its class."""
    return "you lead it" if leads() else "your predictions count, without your name"


def _former_class() -> str | None:
    """Return the class that the browser joined or leads; pages of any other read no class."""
    has_cookie = COOKIE in st.context.cookies or LEAD in st.query_params
    return classes().of(_browser()) if has_cookie or _BROWSER in st.session_state else None


def join(code: str) -> bool:
    """Let this browser join a class; return whether there is one of this code."""
    if code not in classes():
        return False
    st.session_state[_JOINED] = code
    classes().join(code, _browser())
    return True


def _browser() -> str:
    """Return the random name of the browser that shows this page."""
    lead = st.query_params.get(LEAD)
    if settings().classroom and lead is not None and lead == first_class()[1]:
        st.session_state[_BROWSER] = first_class()[1]
    if _BROWSER not in st.session_state:
        cookie = str(st.context.cookies.get(COOKIE, ""))
        is_valid = re.fullmatch(r"[\w-]{22}", cookie, re.ASCII)
        st.session_state[_BROWSER] = cookie if is_valid else secrets.token_urlsafe(16)
    name: str = st.session_state[_BROWSER]
    return name


@cache
def _cookie() -> Callable[..., object]:
    # Not at import, as elsewhere: the server imports this before it can take components.
    return st.components.v2.component("mha_viz.class_cookie", js=component_script("class_cookie"))


def code() -> str | None:
    """Return the class that this page is in, if it is still on."""
    joined: str | None = st.session_state.get(_JOINED)
    return joined if joined is not None and joined in classes() else None


def is_joined() -> bool:
    """Return whether this page is in a class, and that class can be reached."""
    try:
        return code() is not None
    except ClassError:  # the question says so
        return False


def leads() -> bool:
    """Tell whether this browser opened the class that its page is in."""
    joined = code()
    return joined is not None and classes().leads(joined, _browser())


def current_stop() -> LessonPosition:
    """Return the stop of the lesson where the class of this page is."""
    return classes().position(code() or "")


def size() -> int:
    """Count the browsers in the class of this page, without its teacher's."""
    return classes().size(code() or "")


def bring(stop: int) -> None:
    """Bring the class that this browser leads to a stop of the lesson, from 1."""
    if leads():
        classes().bring(code() or "", stop)


def begin() -> None:
    """Open a class that this browser leads."""
    if not (permitted() and may_lead()):
        raise refused("class")
    st.session_state[_JOINED] = classes().open(_browser())


def end() -> None:
    """Forget the class and all its votes."""
    classes().close(st.session_state.pop(_JOINED))


def earlier_answer(question: Hashable, options: Sequence[str]) -> tuple[str | None, bool]:
    """Return what this browser answered before its page was loaded again, and if it saw the answer.

    Outside of a class nothing is known.
    """
    with continue_without_class():
        if (joined := code()) is not None:
            vote_key = question, tuple(options)
            option, is_seen = classes().answer(joined, vote_key, _browser())
            is_option = isinstance(option, int) and 0 <= option < len(options)
            return (options[option] if is_option and option is not None else None), is_seen
    return None, False


def set_page(page: str) -> None:
    """Note the page of the stop where the class is; "" before its first stop."""
    st.session_state[_STOP_PAGE] = page


def is_led_on(page: str) -> bool:
    """Return whether this page is in a class that waits here for its teacher.

    A pupil may look at other labs alone: there nobody would uncover an answer.
    """
    return is_joined() and st.session_state.get(_STOP_PAGE, "") in ("", page)


def take_part(
    question: Hashable, options: Sequence[str], chosen: str | None, *, is_led: bool, is_open: bool
) -> bool:
    """Count a prediction made before the answer is seen, and show those of the class after it.

    Before that the teacher sees how many have answered: the class may look at that screen. Where
    the class is led, the teacher uncovers the answer. Return whether it is seen.
    """
    with continue_without_class():
        joined, key = code(), (question, tuple(options))
        if joined is None:
            return is_open
        is_open = classes().is_uncovered(joined, key) if is_led else is_open
        if is_open:
            classes().see(joined, key, _browser())
        elif chosen is not None and not leads():
            classes().vote(joined, key, _browser(), options.index(chosen))
        if is_led and leads() and not is_open:
            answer_button(key)
        if is_open or leads():
            _votes(joined, key, key[1], is_open)
        if not is_open:
            _wait_for_answer(joined, key, chosen, is_led)
    return is_open


def answer_button(question: tuple[Hashable, tuple[str, ...]]) -> None:
    """Draw the teacher's button that shows the answer of a question to the class."""
    joined = code() or ""

    @guarded
    def uncover() -> None:
        classes().uncover(joined, question)

    st.button(
        "Show the answer to the class",
        icon=":material/visibility:",
        key=f"class-uncover-{question[0]}",
        disabled=classes().is_uncovered(joined, question),
        on_click=uncover,
    )


@st.fragment(run_every=REFRESH_SECONDS)
def _wait_for_answer(joined: str, question: Hashable, chosen: str | None, is_led: bool) -> None:
    """Say that a choice is counted, and draw the page again once its answer is uncovered."""
    with continue_without_class():
        if is_led and streamlit_run.is_partial() and classes().is_uncovered(joined, question):
            st.rerun()
        if leads():
            return
        lines = [":material/check: Counted."] if chosen is not None else []
        lines += ["Your teacher shows the right answer to all."] if is_led else []
        if lines:
            st.caption(" ".join(lines))


@st.fragment(run_every=REFRESH_SECONDS)
def answers(question: tuple[Hashable, tuple[str, ...]]) -> None:
    """Draw for the teacher how many have answered a question, of how many, and the bars."""
    with continue_without_class():
        joined, options = code() or "", question[1]
        counts, joined_count = classes().counts(joined, question, len(options)), size()
        st.markdown(f"**{sum(counts)} of {count(joined_count, 'pupil')} answered.**")
        _draw_bars(counts, options)


@st.fragment(run_every=REFRESH_SECONDS)
def _votes(joined: str, question: Hashable, options: tuple[str, ...], is_open: bool) -> None:
    with continue_without_class():
        counts = classes().counts(joined, question, len(options))
        st.markdown(f"**Your class:** {count(sum(counts), 'answer')} so far.")
        if is_open:
            _draw_bars(counts, options)


def _draw_bars(counts: tuple[int, ...], options: tuple[str, ...]) -> None:
    total = sum(counts)
    for option, votes in zip(options, counts, strict=True):
        st.progress(votes / total if total else 0.0, f"{plain(option)}: {votes}")
