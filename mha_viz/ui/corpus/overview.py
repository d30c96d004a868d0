"""All heads of a study: a metric, label or relation as colours, and which labels hold."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.split_half import wilson
from mha_viz.paper.figures import StudyFigure, by_head, source_line, value_map
from mha_viz.ui.corpus import TEXTS, arcs
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

RELATION = "relation"  # of the gold trees: a kind of colour that is no label
_LABEL_COLUMNS = {
    "label": "Label",
    "mean": "Mean",
    "baseline": "Baseline",
    "low": "Low",
    "high": "High",
    "share_of_texts": "Share of texts",
}


def draw(study: Study) -> None:
    """Draw the map of heads and the table of labels, beside each other."""
    st.header("All heads", anchor=False)
    heads = study.heads
    known = [key for key in METRICS if key in set(heads["metric"])]
    _controls(study, known)
    look.beside([3, 2], lambda: _map(study, heads), lambda: _labels(study))


def show(
    figure: StudyFigure,
    key: str,
    how_to_read: str,
    on_click: Callable[[Any], None] | None = None,
) -> None:
    """Draw a figure of a study with its table and its files."""
    figures.show(
        figure.draw(dark=look.dark()),
        key=key,
        how_to_read=how_to_read,
        table=figure.table,
        caption=figure.caption,
        name=figure.name,
        on_click=on_click,
        paper=figure.image,
    )


def _controls(study: Study, known: list[str]) -> None:
    view = state.of(Corpus)
    if view.metric not in known:
        title = METRICS[view.metric].title if view.metric in METRICS else repr(view.metric)
        now = state.change(metric="entropy" if "entropy" in known else known[0]).metric
        st.info(f"{title} is not in this study. Showing {METRICS[now].title}.")
    relations = arcs.measured_relations(study) if study.has_trees else []
    if view.kind not in ("", *LABELS, *([RELATION] if relations else [])):
        state.change(kind="")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("metric", "Metric", {key: METRICS[key].title for key in known}, width=280)
        kinds = {"": "the metric"} | {key: label.title for key, label in LABELS.items()}
        kinds |= {RELATION: "a gold relation"} if relations else {}
        choosing.menu(
            "kind",
            "Coloured by",
            kinds,
            width=220,
            help=TEXTS("overview.controls"),
        )
        if state.of(Corpus).kind == RELATION:
            arcs.menu("arc", "Relation", relations)


class _Colours(NamedTuple):
    """The heads' colours: values by layer and head, with the ends of their intervals."""

    title: str
    unit: str
    meaning: str
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _by_metric(study: Study, heads: pd.DataFrame) -> _Colours:
    metric = METRICS[state.of(Corpus).metric]
    rows = heads[heads["metric"] == metric.key]
    numbers = (by_head(study, rows, name) for name in ("mean", "low", "high"))
    return _Colours(metric.title, metric.shown_unit, metric.meaning, *numbers)


def _by_label(study: Study, heads: pd.DataFrame) -> _Colours:
    label = LABELS[state.of(Corpus).kind]
    rows = study.sql("SELECT layer, head, label, share_of_texts FROM labels")
    shares = by_head(study, rows[rows["label"] == label.key], "share_of_texts")
    low, high = wilson(shares * study.n_texts, np.full(shares.shape, study.n_texts))
    meaning = f"{label.meaning} The interval takes each text as a draw of its own."
    return _Colours(f"{label.title}: share of texts", "", meaning, shares, low, high)


def _by_relation(study: Study, heads: pd.DataFrame) -> _Colours:
    relation, direction = arcs.split(state.of(Corpus).arc)
    found = study.relations
    rows = found[(found["relation"] == relation) & (found["direction"] == direction)]
    numbers = [by_head(study, rows, name) for name in ("accuracy", "low", "high")]
    chosen = rows[rows["chosen"]].to_dict("records")
    meaning = "No head was asked for it on both halves of the sentences."
    if chosen:
        best = chosen[0]
        meaning = (
            f"How often the word with the most weight is the right one, of {best['n']:,} on half "
            f"of the sentences. Always {best['offset']:+d} words finds "
            f"{format_number(best['offset_baseline'])}; of all heads "
            f"{head_name(best['layer'], best['head'])} was chosen, on the other half."
        )
    return _Colours(f"{arcs.title(state.of(Corpus).arc)}: accuracy", "", meaning, *numbers)


def _map(study: Study, heads: pd.DataFrame) -> None:
    view = state.of(Corpus)
    drawn = {"": _by_metric, RELATION: _by_relation}.get(view.kind, _by_label)(study, heads)
    st.markdown(drawn.meaning)
    numbers = drawn.values, drawn.low, drawn.high
    figure = value_map(study, (drawn.title, drawn.unit), *numbers, selected=view.chosen)
    show(figure, "corpus-map", TEXTS("figures.map"), words.choose)


def _labels(study: Study) -> None:
    st.markdown("**Labels that hold over these texts**")
    found = study.labels
    if found.empty:
        few = study.manifest["counts"].get("n_units", MIN_UNITS) < MIN_UNITS
        why = f"Too few texts to say: a label takes {MIN_UNITS} independent units."
        st.markdown(why if few else "No head of this model earns a label on these texts.")
        return
    table = label_table(found)
    table.insert(
        0, "Head", [head_name(*p) for p in zip(found["layer"], found["head"], strict=True)]
    )
    narrow = {str(title): st.column_config.NumberColumn(width=70) for title in table.columns[2:]}
    narrow["Head"] = st.column_config.TextColumn(width=60)
    st.dataframe(
        table, hide_index=True, width="stretch", placeholder="not defined", column_config=narrow
    )
    st.caption(TEXTS("overview.labels"))
    exports.table_file(
        table,
        key="corpus-labels",
        name="Labels over a corpus",
        caption=source_line(study, "labels"),
    )


def label_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `Study.labels` under the names that they have on screen."""
    table = found[list(_LABEL_COLUMNS)].rename(columns=_LABEL_COLUMNS).reset_index(drop=True)
    table["Label"] = [LABELS[key].title for key in table["Label"]]
    return table
