"""Pairs of heads over all texts: every two heads' likeness, and the nearest pairs."""

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.paper.figures import pairs, source_line
from mha_viz.paper.tables import pairs_note, titled
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.corpus.overview import show
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words


def draw(study: Study) -> None:
    """Draw the matrix of all heads and the nearest pairs, of a study that compares heads."""
    known = {measure: METRICS[measure].title for measure in study.pair_measures}
    st.header("Pairs of heads", anchor=False)
    if state.of(Corpus).measure not in known:
        state.change(measure=next(iter(known)))
    choosing.menu("measure", "Measure", known, width=280)
    st.markdown(METRICS[state.of(Corpus).measure].meaning)
    look.beside([3, 2], lambda: _matrix(study), lambda: _nearest(study))


def _matrix(study: Study) -> None:
    view = state.of(Corpus)

    def choose(clicked: object) -> None:
        if isinstance(clicked, list) and len(clicked) == 2:
            _choose(*(divmod(int(place), study.n_heads) for place in clicked))

    figure = pairs(study, view.measure, view.chosen)
    show(figure, "corpus-pairs", TEXTS("figures.pairs"), choose)


def _choose(first: tuple[int, int], second: tuple[int, int]) -> None:
    state.keep_second()
    words.choose(first)
    state.change(layer_b=second[0], head_b=second[1])


def _nearest(study: Study) -> None:
    found = study.nearest_pairs(state.of(Corpus).measure)
    st.markdown("**The nearest pairs over these texts**")
    table, places = titled(found), found[["layer", "head", "layer_b", "head_b"]].to_numpy().tolist()
    words.choosable(
        table,
        lambda row: _choose(tuple(places[row][:2]), tuple(places[row][2:])),
        key="corpus-nearest",
        form="%.3f",
    )
    st.caption(f"{pairs_note(state.of(Corpus).measure)} Click a row to choose both heads.")
    exports.table_file(
        table, key="corpus-nearest-file", name="Nearest pairs", caption=source_line(study, "pairs")
    )
