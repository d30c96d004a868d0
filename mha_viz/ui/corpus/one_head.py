"""One head over all texts: its labels and where its weight goes."""

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.paper.figures import PROFILES, histogram, of_head, profile, quantiles
from mha_viz.paper.tables import titled
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.corpus.overview import show
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number


def draw(study: Study) -> None:
    """Draw the chosen head's labels and profiles."""
    view = state.of(Corpus)
    st.header(f"One head: {head_name(*view.chosen)}", anchor=False)
    with st.container(horizontal=True):
        controls.head_menus(study.n_layers, study.n_heads, width=100)
    _labels(study)
    for column, axis in zip(st.columns([3, 2], gap="medium"), PROFILES, strict=True):
        with column:
            _profile(study, axis)


def _labels(study: Study) -> None:
    found = of_head(study.labels, state.of(Corpus).chosen)
    if found.empty:
        st.markdown("It earns no label on these texts.")
    else:
        st.table(titled(found).drop(columns="Head").set_index("Label").map(format_number))


def _profile(study: Study, axis: str) -> None:
    figure = profile(study, axis, state.of(Corpus).chosen)
    show(figure, f"corpus-{axis}", TEXTS(f"figures.{axis}"))


def draw_distributions(study: Study) -> None:
    """Draw quantiles of all heads, and beside them the texts of the chosen one."""
    look.beside([3, 2], lambda: _all_heads(study), lambda: _one_head(study))


def _all_heads(study: Study) -> None:
    view = state.of(Corpus)
    figure = quantiles(study, view.metric, view.chosen)
    show(figure, "corpus-quantiles", TEXTS("figures.quantiles"), words.choose)


def _one_head(study: Study) -> None:
    view = state.of(Corpus)
    figure = histogram(study, view.metric, view.chosen)
    if figure is None:
        title, name = METRICS[view.metric].title, head_name(*view.chosen)
        st.markdown(f"{title} is defined on no text for {name}.")
    else:
        show(figure, "corpus-histogram", TEXTS("figures.histogram"))
