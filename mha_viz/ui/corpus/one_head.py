"""One head over all texts: its labels and where its weight goes."""

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.measure.histograms import N_BINS, edges
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.summary import QUANTILES
from mha_viz.plots.bars import token_bars
from mha_viz.plots.distributions import histogram_bars
from mha_viz.plots.head_values import head_quantiles
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.corpus.overview import label_table, of_head, of_heads, settings
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

_NEAR = [str(offset) for offset in range(-10, 11)]  # drawn: few texts are long enough for more
_PROFILES = {
    "offset": (
        "Weight by offset",
        "How far the key is from the query, in tokens; below 0 is before it. The table goes on.",
    ),
    "kind": ("Weight by kind of key", "A key is of the first kind that fits, from the left."),
}


def draw(study: Study) -> None:
    """Draw the chosen head's labels and profiles."""
    view = state.of(Corpus)
    st.header(f"One head: {head_name(*view.chosen)}", anchor=False)
    with st.container(horizontal=True):
        controls.head_menus(study.n_layers, study.n_heads, width=100)
    _labels(study)
    for column, axis in zip(st.columns([3, 2], gap="medium"), _PROFILES, strict=True):
        with column:
            _profile(study, axis)


def _labels(study: Study) -> None:
    found = of_head(study.labels)
    if found.empty:
        st.markdown("It earns no label on these texts.")
    else:
        st.table(label_table(found).set_index("Label").map(format_number))


def _profile(study: Study, axis: str) -> None:
    rows = of_head(study.profile_by(axis))
    title, how_to_read = _PROFILES[axis]
    name = head_name(*state.of(Corpus).chosen)
    drawn = rows[rows[axis].isin(_NEAR)] if axis == "offset" else rows
    weights = {name: drawn["weight"].to_numpy()}
    figure = token_bars(weights, list(drawn[axis]), "weight", dark=look.dark())
    figures.show(
        figure,
        key=f"corpus-{axis}",
        table=rows[[axis, "weight"]].reset_index(drop=True),
        caption=settings(study, name, title),
        **TEXTS.figure("figures.corpus", title=title, name=name, how_to_read=how_to_read),
    )


def draw_distributions(study: Study) -> None:
    """Draw quantiles of all heads, and beside them the texts of the chosen one."""
    heads = study.heads
    rows = heads[heads["metric"] == state.of(Corpus).metric]
    look.beside([3, 2], lambda: _all_heads(study, rows), lambda: _one_head(study))


def _all_heads(study: Study, rows: pd.DataFrame) -> None:
    view = state.of(Corpus)
    title, unit = METRICS[view.metric].title, words.unit_of(view.metric)
    quantiles = np.stack([of_heads(study, rows, name) for name in QUANTILES])
    figures.show(
        head_quantiles(quantiles, title, unit, selected=view.chosen, dark=look.dark()),
        key="corpus-quantiles",
        on_click=words.choose,
        table=rows[["layer", "head", "n_texts", "std", *QUANTILES]].reset_index(drop=True),
        caption=settings(study, title, "quantiles over texts"),
        **TEXTS.figure("figures.corpus_quantiles", title=title),
    )


def _one_head(study: Study) -> None:
    view = state.of(Corpus)
    title, unit = METRICS[view.metric].title, words.unit_of(view.metric)
    name = head_name(*view.chosen)
    counts = of_head(study.sql(f"SELECT * FROM histogram WHERE metric = '{view.metric}'"))
    if counts.empty:
        st.markdown(f"{title} is defined on no text for {name}.")
        return
    limits, numbers = edges(view.metric), np.zeros(N_BINS, int)
    numbers[counts["bin"]] = counts["n"]
    filled = np.flatnonzero(numbers)
    figures.show(
        histogram_bars(limits, numbers, f"{title}, {name}", unit, dark=look.dark()),
        key="corpus-histogram",
        table=pd.DataFrame(
            {"from": limits[filled], "to": limits[filled + 1], "texts": numbers[filled]}
        ),
        caption=settings(study, name, title, "histogram over texts"),
        **TEXTS.figure("figures.corpus_histogram", title=title, name=name),
    )
