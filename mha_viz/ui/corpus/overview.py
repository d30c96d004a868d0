"""All heads of a study: a metric or a label as colours, and which labels heads have earned."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.study import Study
from mha_viz.plots.importance import importance_map
from mha_viz.ui.session import state
from mha_viz.ui.widgets import choosing, exports, figures, look, words
from mha_viz.web.labels import head_name

_LABEL_COLUMNS = {
    "label": "Label",
    "share_of_texts": "Share of texts",
    "mean": "Mean",
    "low": "Low",
    "high": "High",
    "baseline": "Baseline",
}


def telling_head(study: Study) -> dict[str, int]:
    """The head to begin with: of those with a label, the one that has it on most single texts."""
    labels = study.labels
    if labels.empty:
        return {"layer": 0, "head": 0}
    best = labels.sort_values("share_of_texts", kind="stable").iloc[-1]
    return {"layer": int(best["layer"]), "head": int(best["head"])}


def draw(study: Study) -> None:
    """The map of heads and the table of labels, beside each other."""
    heads = study.heads
    known = [key for key in METRICS if key in set(heads["metric"])]
    _controls(known)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _map(study, heads)
    with right:
        _labels(study)


def settings(study: Study, *more: str) -> str:
    """The source of a figure: model, texts and settings, in one line."""
    texts = f"{study.n_texts:,} texts of {study.manifest['source_name']}"
    return " · ".join((study.manifest["model"]["name"], texts, *more))


def of_heads(study: Study, rows: pd.DataFrame, column: str) -> np.ndarray:
    """A column of rows by layer and head as a matrix (layer, head); NaN where there is no row."""
    matrix = np.full((study.n_layers, study.n_heads), np.nan)
    matrix[rows["layer"], rows["head"]] = rows[column]
    return matrix


def _controls(known: list[str]) -> None:
    view = state.current()
    if view.metric not in known:
        title = METRICS[view.metric].title if view.metric in METRICS else repr(view.metric)
        now = state.change(metric="entropy" if "entropy" in known else known[0]).metric
        st.info(f"{title} is not in this study. Showing {METRICS[now].title}.")
    if view.kind and view.kind not in LABELS:
        state.change(kind="")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("metric", "Metric", {key: METRICS[key].title for key in known}, width=280)
        kinds = {"": "the metric"} | {key: label.title for key, label in LABELS.items()}
        choosing.menu(
            "kind",
            "Coloured by",
            kinds,
            width=220,
            help="A label: on which share of single texts each head would have got it.",
        )


def _map(study: Study, heads: pd.DataFrame) -> None:
    view = state.current()
    if view.kind:
        title, unit = f"{LABELS[view.kind].title}: share of texts", ""
        rows = study.sql("SELECT layer, head, label, share_of_texts FROM labels")
        rows = rows[rows["label"] == view.kind]
        ends: dict[str, np.ndarray] = {}
        values = of_heads(study, rows, "share_of_texts")
        meaning = LABELS[view.kind].meaning
    else:
        title, unit = METRICS[view.metric].title, words.unit_of(view.metric)
        rows = heads[heads["metric"] == view.metric]
        ends = {name: of_heads(study, rows, name) for name in ("low", "high")}
        values = of_heads(study, rows, "mean")
        meaning = METRICS[view.metric].meaning
    st.markdown(meaning)
    figure = importance_map(values, title, unit, **ends, selected=view.chosen, dark=look.dark())
    names = [head_name(*place) for place in np.ndindex(values.shape)]
    columns = {title: values, **{name.capitalize(): end for name, end in ends.items()}}
    figures.show(
        figure,
        key="corpus-map",
        name=f"{title} of all heads",
        on_click=words.choose,
        table=pd.DataFrame({"Head": names} | {n: one.ravel() for n, one in columns.items()}),
        caption=settings(study, title),
        how_to_read="A row is a layer, a column a head; hover tells the number"
        + (" and its 95 % interval" if ends else "")
        + ". Click a head to see it below.",
    )


def _labels(study: Study) -> None:
    st.markdown("**Labels that hold over these texts**")
    found = study.labels
    if found.empty:
        st.markdown("No head of this model earns a label on these texts.")
        return
    table = label_table(found)
    table.insert(
        0, "Head", [head_name(*p) for p in zip(found["layer"], found["head"], strict=True)]
    )
    st.dataframe(table, hide_index=True, width="stretch", placeholder="not defined")
    st.caption(
        "A label needs an interval (low to high) that clears its threshold and the baseline. Share "
        "of texts: on how many single texts the head would have got it. That is how far one "
        "sentence can be trusted."
    )
    exports.table_file(
        table, key="corpus-labels", name="Labels over a corpus", caption=settings(study, "labels")
    )


def label_table(found: pd.DataFrame) -> pd.DataFrame:
    """Rows of `Study.labels` under the names that they have on screen."""
    table = found[list(_LABEL_COLUMNS)].rename(columns=_LABEL_COLUMNS).reset_index(drop=True)
    table["Label"] = [LABELS[key].title for key in table["Label"]]
    return table
