"""All heads: as dots in two measures or as a map, with the labels that hold over the texts."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.study import Study
from mha_viz.paper import figures
from mha_viz.paper.all_heads import (
    ScatterChoices,
    arc_title,
    has_untrained,
    label_measure,
    metric_measure,
    relation_measure,
    scatter,
    scatter_axes,
    split_arc,
)
from mha_viz.paper.figures import StudyFigure, metric_map, source_line, value_map
from mha_viz.paper.report import NOTES, pairs_note, titled
from mha_viz.plots.head_scatter import Measure
from mha_viz.ui.many_texts import TEXTS, measures
from mha_viz.ui.many_texts.fitting import RELATION
from mha_viz.ui.many_texts.study_figure import show
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import PICTURES, ManyTexts
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, lazy_sections
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words

_LISTED = 8  # heads within the lasso that are named


def draw(study: Study, view: ManyTexts) -> None:
    """Draw all heads beside the table of labels; behind folds their spread and their pairs."""
    _controls(study, view)
    look.beside(2, partial(_picture, study, view), partial(_labels, study, view))

    def spread() -> None:
        show(figures.quantiles(study, view.metric, view.chosen), "quantiles", words.choose)

    lazy_sections.in_expander("Spread over texts", "fold-spread", spread)
    if study.pair_measures:
        draw_pairs = partial(_pairs, study, view)
        lazy_sections.in_expander("Pairs of heads", "fold-pairs", draw_pairs)


def _controls(study: Study, view: ManyTexts) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.segments("picture", "Picture", PICTURES)
        _colour_menu(study, view)
        if view.kind == RELATION:
            offered = {arc: arc_title(arc) for arc in measures.relations(study)}
            choosing.menu("arc", "Relation", offered, width=300)
        if view.picture == "scatter":
            axes = scatter_axes(study)
            choosing.menu("x_axis", "Across", axes, width=190)
            choosing.menu("y_axis", "Up", axes, width=190)
            with choosing.more("scatter-more"):
                selection.bound("intervals", st.toggle, "Intervals")
                off = not has_untrained(study)
                selection.bound("untrained", st.toggle, "Random weights", disabled=off)


def _colour_menu(study: Study, view: ManyTexts) -> None:
    """Draw the menu of what heads are coloured by: a metric, a label, or a gold relation."""
    offered = measures.metrics_and_labels(study)
    offered |= (
        {RELATION: "A gold relation"} if study.has_trees and measures.relations(study) else {}
    )
    options: dict[str, Any] = {"format_func": offered.__getitem__, "width": 220}
    options |= {"value": RELATION if view.kind == RELATION else measures.selected(view)}
    options |= {"take": _colour_by, "help": TEXTS("all_heads.colour")}
    selection.control("colour", st.selectbox, "Coloured by", list(offered), **options)


def _colour_by(key: str) -> None:
    if key == RELATION:
        selection.change(kind=RELATION)
    else:
        measures.select(key)


def _picture(study: Study, view: ManyTexts) -> None:
    measure, meaning = _colour(study, view)
    st.markdown(meaning)
    if view.picture == "map":
        show(_map(study, view, measure), "map", words.choose)
        return
    choices = ScatterChoices(view.x_axis, view.y_axis, measure, view.intervals, view.untrained)
    figure = scatter(study, choices, view.chosen, view.lasso)
    show(figure, "scatter", words.choose, _select)


def _map(study: Study, view: ManyTexts, measure: Measure) -> StudyFigure:
    if not view.kind:
        return metric_map(study, view.metric, view.chosen)
    numbers: Any = measure[1:]
    return value_map(study, (measure.title, ""), *numbers, selected=view.chosen)


def _colour(study: Study, view: ManyTexts) -> tuple[Measure, str]:
    """Return the numbers that heads are coloured by, and what they mean."""
    if not view.kind:
        return metric_measure(study, view.metric), METRICS[view.metric].meaning
    if view.kind != RELATION:
        meaning = f"{LABELS[view.kind].meaning} {TEXTS('all_heads.label')}"
        return label_measure(study, view.kind), meaning
    relation, direction = split_arc(view.arc)
    scores = measures.relation_scores(study)
    rows = scores[(scores["relation"] == relation) & (scores["direction"] == direction)]
    meaning = "No head was asked for it on both halves of the sentences."
    for best in rows[rows["chosen"]].to_dict("records"):
        name = words.head_name(best["layer"], best["head"])
        meaning = TEXTS("all_heads.relation", best=best, name=name)
    return relation_measure(study, view.arc, scores), meaning


def _select(heads: Sequence[Any]) -> None:
    pairs = {tuple(head) for head in heads if isinstance(head, list) and len(head) == 2}
    selection.change(lasso=tuple(sorted(pairs)))


def _labels(study: Study, view: ManyTexts) -> None:
    rows = study.labels
    if view.lasso:
        named = words.listed(view.lasso, _LISTED)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{words.count(len(view.lasso), 'head')} selected:** {named}")
            st.button("Clear selection", key="many-clear", on_click=guarded(_select), args=([],))
        selected = pd.MultiIndex.from_frame(rows[["layer", "head"]]).isin(view.lasso)
        rows = rows[selected]
    else:
        st.markdown("**Labels that hold over these texts**")
    if rows.empty:
        st.markdown(_no_label(study, bool(view.lasso)))
        return
    table = titled(rows, study.layer_numbers)
    heads = rows[["layer", "head"]].to_numpy().tolist()
    words.choosable(table, lambda row: words.choose(heads[row]), key="many-labels")
    st.caption(NOTES["labels"])
    caption = source_line(study, "labels")
    downloads.table_file(table, key="many-labels-file", name="Labels over texts", caption=caption)


def _no_label(study: Study, is_selected: bool) -> str:
    """Say why no head of a study, or none that is selected, has a label."""
    if study.manifest["counts"].get("n_units", MIN_UNITS) < MIN_UNITS:
        return f"Too few texts to say: a label takes {MIN_UNITS} independent units."
    who = "None of these heads" if is_selected else "No head of this model"
    return f"{who} earns a label on these texts."


def _pairs(study: Study, view: ManyTexts) -> None:
    """Draw the matrix of all heads and the nearest pairs, of a study that compares heads."""
    titles = {measure: METRICS[measure].title for measure in study.pair_measures}
    choosing.menu("measure", "Measure", titles, width=280)
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
