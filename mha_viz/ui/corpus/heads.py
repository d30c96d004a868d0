"""Heads of a study: the best for gold trees, one alone, pairs, and all while the model learned."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.chance import RATE
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.best_heads import BASELINES
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.study_set import LABEL, formed
from mha_viz.corpus.treebank.relations import MIN_TARGETS
from mha_viz.paper import figures
from mha_viz.paper.figures import of_head, parts_of_speech, source_line
from mha_viz.paper.tables import NOTES, answer, pairs_note, titled
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.corpus.overview import show
from mha_viz.ui.state import state
from mha_viz.ui.state.views import QUESTIONS, Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

_HEIGHT = 320  # pixels: the map of heads begins on the first screen


def draw_best(study: Study) -> None:
    """Draw the table of best heads of a study with gold trees."""
    st.header("Which head finds what", anchor=False)
    choosing.segments("question", "Question", QUESTIONS, label_visibility="collapsed")
    by = state.of(Corpus).question
    found = study.best_heads(by)
    if found.empty:
        st.markdown(f"Nothing was asked for {MIN_TARGETS} times: the treebank is too small.")
        return
    st.markdown(answer(found, by))
    table = titled(found)
    places = found[["layer", "head"]].to_numpy()
    words.choosable(
        table,
        lambda row: words.choose(places[row].tolist()),
        key=f"best-heads-{by}",
        form="%.3f",
        height=_HEIGHT,
    )
    st.caption(f"{NOTES[by]} Click a row to see its head below.")
    exports.table_file(
        table,
        key=f"best-{by}",
        name=f"Best heads: {QUESTIONS[by].lower()}",
        caption=source_line(study, study.unit_note),
    )


def draw_one(study: Study) -> None:
    """Draw the chosen head's labels and profiles."""
    view = state.of(Corpus)
    st.header(f"One head: {head_name(*view.chosen)}", anchor=False)
    with st.container(horizontal=True):
        controls.head_menus(study.n_layers, study.n_heads, width=100)
    _labels(study)
    for column, axis in zip(st.columns([3, 2], gap="medium"), figures.PROFILES, strict=True):
        with column:
            _profile(study, axis)


def _labels(study: Study) -> None:
    found = figures.of_head(study.labels, state.of(Corpus).chosen)
    if found.empty:
        st.markdown("It earns no label on these texts.")
    else:
        st.table(titled(found).drop(columns="Head").set_index("Label").map(format_number))


def _profile(study: Study, axis: str) -> None:
    figure = figures.profile(study, axis, state.of(Corpus).chosen)
    show(figure, f"corpus-{axis}", TEXTS(f"figures.{axis}"))


def draw_distributions(study: Study) -> None:
    """Draw quantiles of all heads, and beside them the texts of the chosen one."""
    look.beside([3, 2], lambda: _all_heads(study), lambda: _one_head(study))


def _all_heads(study: Study) -> None:
    view = state.of(Corpus)
    figure = figures.quantiles(study, view.metric, view.chosen)
    show(figure, "corpus-quantiles", TEXTS("figures.quantiles"), words.choose)


def _one_head(study: Study) -> None:
    view = state.of(Corpus)
    figure = figures.histogram(study, view.metric, view.chosen)
    if figure is None:
        title, name = METRICS[view.metric].title, head_name(*view.chosen)
        st.markdown(f"{title} is defined on no text for {name}.")
    else:
        show(figure, "corpus-histogram", TEXTS("figures.histogram"))


def draw_pairs(study: Study) -> None:
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

    figure = figures.pairs(study, view.measure, view.chosen)
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


_FORMING = {LABEL + "previous_token": "previous-token", "induction": "induction"}


def draw_training(study: Study, steps: pd.DataFrame) -> None:
    """Draw one of its metrics and labels over the steps, and say which heads came first."""
    st.header("While the model learned", anchor=False)
    st.markdown(f"{_order(steps)} {TEXTS('training.run', steps=steps['step'].max())}")
    known = {key: METRICS[key].title for key in METRICS if key in set(steps["name"])}
    labels = {LABEL + key: f"Label: {label.title}" for key, label in LABELS.items()}
    known |= {key: title for key, title in labels.items() if key in set(steps["name"])}
    if state.of(Corpus).over not in known:
        state.change(over="previous_token")
    choosing.menu("over", "Metric or label", known, width=280)
    view = state.of(Corpus)
    source = source_line(study, "a run of its recipe")
    show(
        figures.over_steps(steps, view.over, source, view.chosen),
        "corpus-steps",
        TEXTS("figures.steps"),
    )


def _order(steps: pd.DataFrame) -> str:
    """Say when the first head of each kind formed."""
    said = []
    for name, kind in _FORMING.items():
        if (first := formed(steps, name)) is None:
            said.append(f"{kind} head after the last step")
        else:
            head = head_name(first["layer"], first["head"])
            said.append(f"{kind} head by step {first['step']:,} ({head})")
    return f"**First {said[0]}, first {said[1]}.**"


_SHOWN = 12  # relations


def draw_grammar(study: Study) -> None:
    """Draw the chosen head's relations and parts of speech, beside each other."""
    st.subheader("Grammar", anchor=False)
    if not study.has_trees:
        st.markdown(TEXTS("grammar.draw"))
        return
    look.beside(2, lambda: _relations(study), lambda: _parts_of_speech(study))


def _relations(study: Study) -> None:
    name = head_name(*state.of(Corpus).chosen)
    st.markdown("**Relations that it finds best**")
    rows = of_head(study.relations, state.of(Corpus).chosen)
    rows = rows[rows["n"] >= MIN_TARGETS].sort_values(
        ["beats", "accuracy"], ascending=False, kind="stable"
    )
    table = titled(rows).drop(columns="Head")
    if table.empty:
        st.markdown(f"No relation was asked for {MIN_TARGETS} times: the treebank is too small.")
        return
    st.dataframe(
        table.head(_SHOWN),
        hide_index=True,
        placeholder="not defined",
        column_config={"Relation": st.column_config.TextColumn(width=146)}
        | {
            str(title): st.column_config.NumberColumn(format="%.3f", width=70)
            for title in table.select_dtypes("float")
        }
        | {name: st.column_config.NumberColumn(format="%.2g", width=70) for name in ("p", "q")},
    )
    st.caption(TEXTS("grammar.relations", min_targets=MIN_TARGETS, min_units=MIN_UNITS))
    exports.table_file(
        table, key="corpus-relations", name=f"Relations of {name}", caption=source_line(study, name)
    )
    _whole_trees(study)


def _whole_trees(study: Study) -> None:
    """Write the head's scores on whole trees and on antecedents."""
    for row in of_head(study.trees, state.of(Corpus).chosen).to_dict("records"):
        st.markdown(
            f"The maximum spanning tree of its weights has **{share(row, 'uuas')}** of "
            f"{row['n_arcs']:,} gold arcs. {verdicts(row, 'uuas', 'n_arcs')}"
        )
    for row in of_head(study.coreference, state.of(Corpus).chosen).to_dict("records"):
        st.markdown(
            f"Of {row['n']:,} mentions it looks at an antecedent, of all earlier mentions, in "
            f"**{share(row, 'accuracy')}**. {verdicts(row, 'accuracy', 'n')}"
        )


def verdicts(row: Mapping[Hashable, Any], score: str, n: str) -> str:
    """Say of a row with a head's score which baselines it beats, by its tests.

    >>> row = {"uuas": 0.64, "n": 22, "random_baseline": 0.68, "q_random_baseline": 0.8}
    >>> verdicts(row, "uuas", "n")
    'It does not beat random weights: 0.64 against 0.68, n = 22.'
    """
    sentences = []
    for column, name in BASELINES.items():
        if np.isnan(row.get(column, np.nan)):
            continue
        q = row[f"q_{column}"]
        numbers = f"{format_number(row[score])} against {format_number(row[column])}"
        said = f"It beats {name}" if q <= RATE else f"It does not beat {name}"
        said = f"There is too little to say whether it beats {name}" if np.isnan(q) else said
        sentences.append(f"{said}: {numbers}, n = {row[n]:,}.")
    return " ".join(sentences)


def share(row: Mapping[Hashable, Any], name: str) -> str:
    """Return a share with its interval.

    >>> share({"uuas": 0.5, "low": 0.4, "high": 0.6}, "uuas")
    '0.5 (0.4 to 0.6)'
    """
    value, low, high = (format_number(row[column]) for column in (name, "low", "high"))
    return f"{value} ({low} to {high})"


def _parts_of_speech(study: Study) -> None:
    figure = parts_of_speech(study, state.of(Corpus).chosen)
    show(figure, "corpus-speech", TEXTS("figures.speech", min_targets=MIN_TARGETS))
