"""One head over many texts: its labels, where its weight goes, and its scores over texts."""

from functools import partial

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.paper import figures
from mha_viz.paper.report import titled
from mha_viz.ui.many_texts.study_figure import show
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, lazy_sections
from mha_viz.ui.widgets.messages import words


def draw(study: Study, view: ManyTexts) -> None:
    """Draw the chosen head's labels and profiles, and behind a fold its scores over texts."""
    rows = figures.of_head(study.labels, view.chosen)
    if rows.empty:
        st.markdown("It earns no label on these texts.")
    else:
        table = titled(rows, study.layer_numbers).drop(columns="Head").set_index("Label")
        st.table(table.map(words.format_number))
    look.beside([3, 2], *(partial(_profile, study, view, axis) for axis in figures.PROFILES))
    histogram = partial(_histogram, study, view)
    lazy_sections.in_expander("Its scores over texts", "fold-histogram", histogram)


def _profile(study: Study, view: ManyTexts, axis: str) -> None:
    show(figures.profile(study, axis, view.chosen), axis)


def _histogram(study: Study, view: ManyTexts) -> None:
    measured = set(study.heads["metric"])
    offered = {key: METRICS[key].title for key in METRICS if key in measured}
    choosing.menu("metric", "Metric", offered, width=280)
    figure = figures.histogram(study, view.metric, view.chosen)
    if figure is None:
        title, name = METRICS[view.metric].title, words.head_name(*view.chosen)
        st.markdown(f"{title} is defined on no text for {name}.")
    else:
        show(figure, "histogram")
