"""Best heads for what gold trees ask: beside their baselines, with a verdict."""

import streamlit as st

from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import MIN_TARGETS
from mha_viz.paper.figures import source_line
from mha_viz.paper.tables import NOTES, answer, titled
from mha_viz.ui.state import state
from mha_viz.ui.state.views import QUESTIONS, Corpus
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words

_HEIGHT = 320  # pixels: the map of heads begins on the first screen


def draw(study: Study) -> None:
    """Draw the table of best heads of a study with gold trees."""
    st.header("Which head finds what", anchor=False)
    choosing.segments("question", "Question", QUESTIONS, label_visibility="collapsed")
    by = state.of(Corpus).question
    found = study.best_heads(by)
    if found.empty:
        st.markdown(f"Nothing was asked for {MIN_TARGETS} times: the treebank is too small.")
        return
    st.markdown(answer(found, by))
    table = titled(found)
    places = found[["layer", "head"]].to_numpy()
    words.choosable(
        table,
        lambda row: words.choose(places[row].tolist()),
        key=f"best-heads-{by}",
        form="%.3f",
        height=_HEIGHT,
    )
    st.caption(f"{NOTES[by]} Click a row to see its head below.")
    exports.table_file(
        table,
        key=f"best-{by}",
        name=f"Best heads: {QUESTIONS[by].lower()}",
        caption=source_line(study, study.unit_note),
    )
