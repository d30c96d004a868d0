"""The first page of Learn: pick a sentence, run it once, draw it; no server between the steps."""

from collections.abc import Mapping

import streamlit as st

from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.start import numbers, story
from mha_viz.reports.report import KEEP, report
from mha_viz.ui.pages import FIRST
from mha_viz.ui.run import memory
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.link_values import integer
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets.components.component import LateComponent, validate_step

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
        run = numbers.follow(model, text)
        earned = report(
            model.trace(text, keep=KEEP),
            random=memory.untrained_copy(*_CHECKPOINT),
            induction=memory.induction(*_CHECKPOINT, "self", False),
            random_induction=memory.induction(*_CHECKPOINT, "self", True),
        )
        return story.payload(run, earned.labels)

    payload = memory.cache().get(("start", text), make, len)
    n_steps, key = len(story.STEPS), choices.key("picture")
    choices.get("step", 1, integer(1, n_steps))  # the browser reads it in the address

    @guarded
    def go() -> None:
        sent = validate_step(from_browser(key), n_steps)
        if sent is not None:
            choices.set("step", sent[0] + 1)

    with st.container(gap=None):
        _sentence.bring(choices.key("script"))
        # Streamlit reports a component's trigger only to a callback.
        event = _sentence(key=key, data=payload, on_step_change=go, on_way_change=lambda: None)
    _end()
    way, pages = event.get("way") if isinstance(event, Mapping) else None, session().pages
    if way in pages and way in story.WAYS.values():
        params = {"model": numbers.MODEL, "text": text} if way == FIRST else None
        st.switch_page(pages[way], query_params=params)


def _end() -> None:
    st.header(TEXTS("end.heading"), anchor=False)
    st.markdown("\n".join(f"- {sentence}" for sentence in TEXTS.labels("end")["learned"]))
    with st.expander(TEXTS("end.elsewhere")):
        st.markdown(TEXTS("end.others"))
