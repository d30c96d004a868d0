"""Questions that come before their answers: options, a reply to each, and figures that wait.

Knows streamlit; must not import torch.
"""

from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.learn.frame import classroom
from mha_viz.learn.frame.choices import Choices
from mha_viz.ui.operating.streamlit_run import end_run
from mha_viz.ui.state.faults import guarded

EXIT = "exit"  # the question at the end of a lab
_FIRST = "class-first-question"  # of the open lab: a class waits for its answer
_HIDDEN = "class-rest-hidden"  # whether a class waits


@dataclass(frozen=True)
class Question:
    """A question with its options.

    Args:
        question: in markdown.
        options: the possible answers, in plain text.
        right: the number of the right option.
        because: the reason for it.
        wrong: for each option why it fails; "" for one that is always right.
    """

    question: str
    options: tuple[str, ...]
    right: int
    because: str
    wrong: tuple[str, ...]

    def reply(self, chosen: str | None) -> str:
        """Return the verdict on an option, why a wrong one fails, and the reason for the right one.

        >>> question = Question("1 + 1?", ("2", "3"), 0, "Count.", ("", "You counted one twice."))
        >>> question.reply("2")
        '**Yes. 2.** Count.'
        >>> question.reply("3")
        '**No.** You counted one twice.\\n\\n**2.** Count.'
        """
        right = self.options[self.right]
        if chosen is None or chosen not in self.options:
            return f"**{right}.** {self.because}"
        if chosen == right:
            return f"**Yes. {right}.** {self.because}"
        return f"**No.** {self.wrong[self.options.index(chosen)]}\n\n**{right}.** {self.because}"


class Cover:
    """The cover of figures that would answer a question; page.css hides them and keeps their room.

    Each call begins a container for such a figure.
    """

    def __init__(self, key: str, is_open: bool) -> None:
        self.is_open, self._key, self._n_figures = is_open, key, 0

    def __call__(self) -> DeltaGenerator:
        """Begin a container whose content is seen once the question has a choice."""
        self._n_figures += 1
        state = "answers" if self.is_open else "covered"
        return st.container(key=f"{state}-{self._key}-{self._n_figures}")


def begin_lab() -> None:
    """Forget which question was the first one of the lab before."""
    st.session_state.pop(_FIRST, None)


def predict(choices: Choices, name: str, question: Question) -> Cover:
    """Ask a question before the lab is run, or at its exit; return the cover of what answers it.

    A class that is at this lab waits for its teacher to uncover the answer of the first question.
    """
    intro = "One question before you go." if name == EXIT else "Predict before you run."
    key = choices.key(f"predict-{name}")
    is_first = st.session_state.setdefault(_FIRST, key) == key
    is_led = is_first and classroom.is_led_on(choices.lab.address)
    question = replace(question, question=f"**{intro}** {question.question}")
    cover = Cover(choices.key(name), ask(key, question, is_led=is_led))
    if is_led and not cover.is_open:
        st.session_state[_HIDDEN] = True
        rest_waits()
        end_run()
    if is_first and st.session_state.pop(_HIDDEN, False):
        st.rerun()  # of the whole page: this may be a part of it
    return cover


def ask(key: str, question: Question, *, is_led: bool = False) -> bool:
    """Ask a question on which a class can vote; answers and votes are kept by `key`.

    `is_led`: whether a class waits for its teacher to uncover the answer. Return whether what
    answers the question may be seen: there is a choice, or the teacher has uncovered it.
    """
    options, seen_key = question.options, f"{key}-seen"
    if key not in st.session_state:
        earlier = classroom.earlier_answer(key, options)
        st.session_state[key], st.session_state[seen_key] = earlier
    with st.container(border=True):
        st.markdown(f":material/psychology_alt: {question.question}")
        chosen = st.radio(
            "Your prediction",
            options,
            index=None,
            key=key,
            persist_state="session",
            label_visibility="collapsed",
        )
        is_open = not is_led and _answer_button(key, chosen)
        is_open = classroom.take_part(key, options, chosen, is_led=is_led, is_open=is_open)
        if is_open:
            st.info(question.reply(chosen), icon=":material/lightbulb:")
    return is_open or (not is_led and (chosen is not None or bool(st.session_state.get(seen_key))))


def _answer_button(key: str, chosen: str | None) -> bool:
    """Draw the button that shows or hides the answer; return whether it is shown."""
    open_key = f"{key}-open"

    @guarded
    def turn() -> None:
        st.session_state[open_key] = not st.session_state.get(open_key, False)
        st.session_state[f"{key}-seen"] = True

    is_open: bool = st.session_state.get(open_key, False)
    label = "Hide the answer" if is_open else "Show the answer"
    unanswered = chosen is None and not is_open
    st.button(label, key=f"{key}-button", on_click=turn, disabled=unanswered)
    return is_open


def rest_waits() -> None:
    """Say that what would give an answer away waits; page.css then keeps no place for it."""
    with st.container(key="rest-waits"):
        st.caption("In a class, the rest of the page comes with the answer.")
