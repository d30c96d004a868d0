"""The first page of Learn: pick a sentence, run it once, draw it; no server between the steps."""

import streamlit as st

from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.start import numbers, story
from mha_viz.reports.report import KEEP, report
from mha_viz.ui.run import memory
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets.components.component import LateComponent

TEXTS = story.TEXTS
MAX_LETTERS = 240
_CHECKPOINT = (numbers.MODEL, "cpu", "float32")

_sentence = LateComponent("first_sentence")


def draw(choices: Choices) -> None:
    """Draw the box for a sentence, the picture with its steps, and the end."""
    label = TEXTS("page.label", most=numbers.MAX_TOKENS)
    text = choices.text("sentence", label, numbers.SENTENCE, most=MAX_LETTERS, width=1120)
    model = memory.model(*_CHECKPOINT)

    def make() -> bytes:
        found = numbers.follow(model, text)
        earned = report(
            model.trace(text, keep=KEEP),
            random=memory.untrained_copy(*_CHECKPOINT),
            induction=memory.induction(*_CHECKPOINT, "self", False),
            random_induction=memory.induction(*_CHECKPOINT, "self", True),
        )
        return story.payload(found, earned.labels)

    made = memory.cache().get(("start", text), make, len)
    with st.container(gap=None):
        _sentence.bring(choices.key("script"))
        _sentence(key=choices.key("picture"), data=made)
    _end(text)


def _end(text: str) -> None:
    pages = session().pages
    st.header(TEXTS("end.heading"), anchor=False)
    st.markdown("\n".join(f"- {one}" for one in TEXTS.labels("end")["learned"]))
    st.header(TEXTS("end.onward"), anchor=False)
    ways = {
        "lab": ("lab-soft-lookup", None),
        "circuit": ("lab-induction-circuit", None),
        "heads": ("heads", {"model": numbers.MODEL, "text": text}),
    }
    for column, (key, (page, params)) in zip(st.columns(3), ways.items(), strict=True):
        with column, st.container(border=True, height="stretch", gap="xxsmall"):
            if page in pages:
                st.page_link(pages[page], label=f"**{TEXTS(f'end.{key}')}**", query_params=params)
            st.caption(TEXTS(f"end.{key}_about"))
    with st.expander(TEXTS("end.elsewhere")):
        st.markdown(TEXTS("end.others"))
