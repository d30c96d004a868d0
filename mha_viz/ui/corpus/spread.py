"""How the chosen metric is spread over the texts: of all heads, and of the chosen one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.histograms import N_BINS, edges
from mha_viz.corpus.study import Study
from mha_viz.corpus.summary import QUANTILES
from mha_viz.plots.spread import head_quantiles, histogram_bars
from mha_viz.ui.corpus.overview import of_head, of_heads, settings
from mha_viz.ui.session import state
from mha_viz.ui.widgets import figures, look, words
from mha_viz.web.labels import head_name


def draw(study: Study) -> None:
    """Quantiles of all heads, and beside them the texts of the chosen one."""
    heads = study.heads
    rows = heads[heads["metric"] == state.current().metric]
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _all_heads(study, rows)
    with right:
        _one_head(study)


def _all_heads(study: Study, rows: pd.DataFrame) -> None:
    view = state.current()
    title, unit = METRICS[view.metric].title, words.unit_of(view.metric)
    quantiles = np.stack([of_heads(study, rows, name) for name in QUANTILES])
    figures.show(
        head_quantiles(quantiles, title, unit, selected=view.chosen, dark=look.dark()),
        key="corpus-quantiles",
        name=f"{title} over texts, all heads",
        on_click=words.choose,
        table=rows[["layer", "head", "n_texts", "std", *QUANTILES]].reset_index(drop=True),
        caption=settings(study, title, "quantiles over texts"),
        how_to_read="A head with a long line does on some texts what it does not on others; its "
        "mean says little about one sentence. Click a dot to see that head below.",
    )


def _one_head(study: Study) -> None:
    view = state.current()
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
        name=f"{title} of {name} over texts",
        table=pd.DataFrame(
            {"from": limits[filled], "to": limits[filled + 1], "texts": numbers[filled]}
        ),
        caption=settings(study, name, title, "histogram over texts"),
        how_to_read="A bar counts the texts on which this head's number lies between two limits.",
    )
