"""Pairs of heads of a study: the matrix of all, and the nearest."""

from functools import partial

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.paper import figures
from mha_viz.paper.report import pairs_note, titled
from mha_viz.ui.many_texts.study_figure import show
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words


def draw(study: Study, view: ManyTexts) -> None:
    """Draw the matrix of all heads and the nearest pairs, of a study that compares heads."""
    measures = {measure: METRICS[measure].title for measure in study.pair_measures}
    choosing.menu("measure", "Measure", measures, width=280)
    st.markdown(METRICS[view.measure].meaning)
    look.beside([5, 4], partial(_matrix, study, view), partial(_nearest, study, view))


def _matrix(study: Study, view: ManyTexts) -> None:
    def choose(clicked: object) -> None:
        if isinstance(clicked, list) and len(clicked) == 2:
            words.choose_both(*(divmod(int(cell), study.n_heads) for cell in clicked))

    show(figures.pairs(study, view.measure, view.chosen), "pairs", choose)


def _nearest(study: Study, view: ManyTexts) -> None:
    rows = study.nearest_pairs(view.measure)
    st.markdown("**The nearest pairs over these texts**")
    table, columns = titled(rows, study.layer_numbers), ["layer", "head", "layer_b", "head_b"]
    heads = [((row[0], row[1]), (row[2], row[3])) for row in rows[columns].to_numpy().tolist()]
    words.choosable(table, lambda row: words.choose_both(*heads[row]), key="many-nearest")
    st.caption(f"{pairs_note(view.measure)} Click a row to choose both heads.")
    name, caption = "Nearest pairs", figures.source_line(study, "pairs")
    downloads.table_file(table, key="many-nearest-file", name=name, caption=caption)
