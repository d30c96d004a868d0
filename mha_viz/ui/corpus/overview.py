"""All heads of a study: a metric, label or relation as colours, and which labels hold."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.search import DIRECTIONS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import ALL, TO_HEAD
from mha_viz.corpus.treebank.split_half import wilson
from mha_viz.paper.figures import Head, StudyFigure, by_head, metric_map, source_line, value_map
from mha_viz.paper.report import NOTES, titled
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import words


def split_arc(arc: str) -> tuple[str, str]:
    """Return relation and direction of a choice.

    >>> split_arc("nsubj:pass.to_head")
    ('nsubj:pass', 'to_head')
    """
    relation, _, direction = arc.rpartition(".")
    return relation, direction


def arc_title(arc: str) -> str:
    """Return a choice's name on screen.

    >>> arc_title("obj.to_dependent"), arc_title("all.to_head")
    ('obj: head looks at dependent', 'any relation: dependent looks at head')
    """
    relation, direction = split_arc(arc)
    who = ("dependent", "head") if direction == TO_HEAD else ("head", "dependent")
    name = "any relation" if relation == ALL else relation
    return f"{name}: {who[0]} looks at {who[1]}"


def arc_menu(name: str, label: str, offered: Iterable[str], *, none: str = "") -> None:
    """Draw a menu of relations with their directions; what a link names beside them is dropped."""
    titles = ({"": none} if none else {}) | {arc: arc_title(arc) for arc in offered}
    if getattr(state.of(Corpus), name) not in titles:
        state.change(**{name: next(iter(titles))})
    choosing.menu(name, label, titles, width=300)


def measured_relations(study: Study) -> list[str]:
    """Return the relations whose accuracy a study knows, `ALL` first."""
    found = study.sql(
        "SELECT relation, direction FROM relations GROUP BY ALL HAVING count(DISTINCT half) = 2"
    )
    pairs = sorted(found.itertuples(index=False), key=lambda pair: (pair[0] != ALL, *pair))
    return [".".join(pair) for pair in pairs]


def present_relations(study: Study) -> list[str]:
    """Return the relations between any two tokens of a study, and shared prefixes."""
    found = set(study.sql("SELECT DISTINCT relation FROM arcs")["relation"])
    every = found | {relation.partition(":")[0] for relation in found}
    return [f"{relation}.{way}" for relation in sorted(every) for way in DIRECTIONS]


RELATION = "relation"  # of the gold trees: a kind of colour that is no label


def draw(study: Study) -> None:
    """Draw the map of heads and the table of labels, beside each other."""
    st.header("All heads", anchor=False)
    known = [key for key in METRICS if key in set(study.heads["metric"])]
    _controls(study, known)
    look.beside([3, 2], lambda: _map(study), lambda: _labels(study))


def show(
    figure: StudyFigure, key: str, on_click: Callable[[Any], None] | None = None, **told: object
) -> None:
    """Draw a figure of a study with its table, its files, and the text of its key."""
    texts = {"name": figure.name, "how_to_read": TEXTS(f"figures.{key}", **told)}
    given: dict[str, Any] = {"table": figure.table, "caption": figure.caption, **texts}
    drawn, key = figure.draw(dark=look.dark()), f"corpus-{key}"
    figures.show(drawn, key=key, on_click=on_click, paper=figure.image, **given)


def _controls(study: Study, known: list[str]) -> None:
    view = state.of(Corpus)
    if view.metric not in known:
        title = METRICS[view.metric].title if view.metric in METRICS else repr(view.metric)
        now = state.change(metric="entropy" if "entropy" in known else known[0]).metric
        st.info(f"{title} is not in this study. Showing {METRICS[now].title}.")
    relations = measured_relations(study) if study.has_trees else []
    if view.kind not in ("", *LABELS, *([RELATION] if relations else [])):
        state.change(kind="")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("metric", "Metric", {key: METRICS[key].title for key in known}, width=280)
        kinds = {"": "the metric"} | {key: label.title for key, label in LABELS.items()}
        kinds |= {RELATION: "a gold relation"} if relations else {}
        choosing.menu("kind", "Coloured by", kinds, width=220, help=TEXTS("overview.controls"))
        if state.of(Corpus).kind == RELATION:
            arc_menu("arc", "Relation", relations)


def _map(study: Study) -> None:
    kind, chosen = state.of(Corpus).kind, state.of(Corpus).chosen
    drawn = {"": _by_metric, RELATION: _by_relation}.get(kind, _by_label)
    meaning, figure = drawn(study, chosen)
    st.markdown(meaning)
    show(figure, "map", words.choose)


def _by_metric(study: Study, chosen: Head) -> tuple[str, StudyFigure]:
    metric = METRICS[state.of(Corpus).metric]
    return metric.meaning, metric_map(study, metric.key, chosen)


def _by_label(study: Study, chosen: Head) -> tuple[str, StudyFigure]:
    label = LABELS[state.of(Corpus).kind]
    rows = study.sql("SELECT layer, head, label, share_of_texts FROM labels")
    shares = by_head(study, rows[rows["label"] == label.key], "share_of_texts")
    ends = wilson(shares * study.n_texts, np.full(shares.shape, study.n_texts))
    title = f"{label.title}: share of texts"
    meaning = f"{label.meaning} The interval takes each text as a draw of its own."
    return meaning, value_map(study, (title, ""), shares, *ends, selected=chosen)


def _by_relation(study: Study, chosen: Head) -> tuple[str, StudyFigure]:
    arc = state.of(Corpus).arc
    relation, direction = split_arc(arc)
    found = study.relations
    rows = found[(found["relation"] == relation) & (found["direction"] == direction)]
    numbers = [by_head(study, rows, name) for name in ("accuracy", "low", "high")]
    meaning = "No head was asked for it on both halves of the sentences."
    for best in rows[rows["chosen"]].to_dict("records"):
        name = words.head_name(best["layer"], best["head"])
        meaning = TEXTS("overview.relation", best=best, name=name)
    title = f"{arc_title(arc)}: accuracy"
    return meaning, value_map(study, (title, ""), *numbers, selected=chosen)


def _labels(study: Study) -> None:
    st.markdown("**Labels that hold over these texts**")
    found = study.labels
    if found.empty:
        few = study.manifest["counts"].get("n_units", MIN_UNITS) < MIN_UNITS
        why = f"Too few texts to say: a label takes {MIN_UNITS} independent units."
        st.markdown(why if few else "No head of this model earns a label on these texts.")
        return
    table = titled(found, study.layer_numbers)
    narrow = {str(title): st.column_config.NumberColumn(width=70) for title in table.columns[2:]}
    narrow |= words.number_columns(table, width=70)
    narrow["Head"] = st.column_config.TextColumn(width=60)
    st.dataframe(table, hide_index=True, placeholder=words.UNDEFINED, column_config=narrow)
    st.caption(NOTES["labels"])
    name, caption = "Labels over a corpus", source_line(study, "labels")
    exports.table_file(table, key="corpus-labels", name=name, caption=caption)
