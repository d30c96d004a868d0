"""The parts of the Corpus page, a module each: texts, all heads, one head, search, two studies.

Importing it imports torch, plotly, pyarrow and duckdb, so the page does it late.
"""

from __future__ import annotations

import streamlit as st

from mha_viz.corpus.study import Study
from mha_viz.ui.corpus import (
    comparing,
    examples,
    grammar,
    making,
    one_head,
    overview,
    searching,
    spread,
    texts,
)
from mha_viz.ui.session import memory, state
from mha_viz.ui.widgets.messages import stop_on_error


def draw() -> None:
    """The study of the chosen texts, once it is there; until then, how far it is."""
    texts.choose()
    comparing.fit()
    study = making.made(state.current(), "study")
    if study is not None:
        texts.about(study)
        _fit(study)
        _parts(study)


def _fit(study: Study) -> None:
    """Replace what a link asks for and this study does not have."""
    layer, head = state.current().chosen
    if not (0 <= layer < study.n_layers and 0 <= head < study.n_heads):
        state.change(**overview.telling_head(study), query=-1, key=-1)


@st.fragment
def _parts(study: Study) -> None:
    """All that is drawn of a study; a click reruns this and nothing else on the page."""
    with stop_on_error():
        overview.draw(study)
        spread.draw(study)
        one_head.draw(study)
        grammar.draw(study)
        examples.draw(study, memory.model(*state.current().checkpoint))
        searching.draw(study)
        comparing.draw(study)
        state.publish()
