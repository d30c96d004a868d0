"""The parts of the Corpus page, a module each: the texts, all heads, one head, a search.

Importing it imports torch, plotly, pyarrow and duckdb, so the page does it late.
"""

from __future__ import annotations

import streamlit as st

from mha_viz.corpus.study import Study
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.corpus import examples, grammar, making, one_head, overview, searching, spread
from mha_viz.ui.session import state
from mha_viz.ui.widgets.messages import stop_on_error


def draw(model: AttentionModel) -> None:
    """The study of the chosen texts, once it is there; until then, how far it is."""
    making.own_texts()
    study = making.made(model)
    if study is not None:
        _fit(study)
        _parts(study, model)


def _fit(study: Study) -> None:
    """Replace what a link asks for and this study does not have."""
    layer, head = state.current().chosen
    if not (0 <= layer < study.n_layers and 0 <= head < study.n_heads):
        state.change(**overview.telling_head(study), query=-1, key=-1)


@st.fragment
def _parts(study: Study, model: AttentionModel) -> None:
    """All that is drawn of a study; a click reruns this and nothing else on the page."""
    with stop_on_error():
        overview.draw(study)
        spread.draw(study)
        one_head.draw(study)
        grammar.draw(study)
        examples.draw(study, model)
        searching.draw(study)
        state.publish()
