"""The texts that several sections measure: the sentence, and more, one a line."""

from functools import partial

import streamlit as st

from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.examples import EXAMPLES
from mha_viz.ui.state.session import session
from mha_viz.ui.why import TEXTS

MAX_TEXTS = 32
N_EXAMPLES = 4  # beside the sentence: enough for an interval, and soon measured


def measured(scene: Scene) -> tuple[str, ...]:
    """Return the texts that are measured: this one, and more."""
    return tuple(_all_texts(scene))[:MAX_TEXTS]


def examples() -> list[str]:
    """Return the first few examples: measuring takes as long as there are texts."""
    return list(dict.fromkeys(example.text for example in EXAMPLES))[:N_EXAMPLES]


def box(scene: Scene) -> None:
    """Draw the box of texts beside the sentence, which sections share."""
    typed = session().more_texts
    selection.control(
        *("ask_more_texts", st.text_area),
        value="\n".join(examples()) if typed is None else typed,
        take=partial(setattr, session(), "more_texts"),
        **TEXTS.control("more_texts", most=MAX_TEXTS),
    )
    count = len(_all_texts(scene))
    if count > MAX_TEXTS:
        st.info(f"{count} texts: the first {MAX_TEXTS} are measured, this sentence among them.")


def _all_texts(scene: Scene) -> list[str]:
    typed = session().more_texts
    lines = examples() if typed is None else typed.splitlines()
    stripped = (line.strip() for line in lines)
    return list(dict.fromkeys([scene.record.text, *(line for line in stripped if line)]))
