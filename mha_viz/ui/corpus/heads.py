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
from mha_viz.paper.report import NOTES, answer, pairs_note, titled
from mha_viz.ui.corpus import TEXTS, overview
from mha_viz.ui.state import state
from mha_viz.ui.state.views import QUESTIONS, Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words

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
    st.markdown(answer(found, by, study.layer_numbers))
    table, places = titled(found, study.layer_numbers), found[["layer", "head"]].to_numpy().tolist()
    key = f"best-heads-{by}"
    words.choosable(table, lambda row: words.choose(places[row]), key=key, height=_HEIGHT)
    st.caption(f"{NOTES[by]} Click a row to see its head below.")
    name = f"Best heads: {QUESTIONS[by].lower()}"
    caption = figures.source_line(study, study.unit_note)
    exports.table_file(table, key=f"best-{by}", name=name, caption=caption)


def draw_one(study: Study) -> None:
    """Draw the chosen head's labels and profiles."""
    view = state.of(Corpus)
    st.header(f"One head: {words.head_name(*view.chosen)}", anchor=False)
    with st.container(horizontal=True):
        controls.head_menus(study.n_layers, study.n_heads, width=100)
    found = figures.of_head(study.labels, view.chosen)
    if found.empty:
        st.markdown("It earns no label on these texts.")
    else:
        st.table(
            titled(found, study.layer_numbers)
            .drop(columns="Head")
            .set_index("Label")
            .map(words.format_number)
        )
    for column, axis in zip(st.columns([3, 2], gap="medium"), figures.PROFILES, strict=True):
        with column:
            overview.show(figures.profile(study, axis, view.chosen), axis)


def draw_all(study: Study) -> None:
    """Draw all heads as colours and as quantiles, and beside these the texts of the chosen one."""
    overview.draw(study)
    view = state.of(Corpus)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        overview.show(figures.quantiles(study, view.metric, view.chosen), "quantiles", words.choose)
    with right:
        figure = figures.histogram(study, view.metric, view.chosen)
        if figure is None:
            title, name = METRICS[view.metric].title, words.head_name(*view.chosen)
            st.markdown(f"{title} is defined on no text for {name}.")
        else:
            overview.show(figure, "histogram")


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
            words.choose_both(*(divmod(int(place), study.n_heads) for place in clicked))

    overview.show(figures.pairs(study, view.measure, view.chosen), "pairs", choose)


def _nearest(study: Study) -> None:
    found = study.nearest_pairs(state.of(Corpus).measure)
    st.markdown("**The nearest pairs over these texts**")
    table, columns = titled(found, study.layer_numbers), ["layer", "head", "layer_b", "head_b"]
    heads = [((row[0], row[1]), (row[2], row[3])) for row in found[columns].to_numpy().tolist()]
    words.choosable(table, lambda row: words.choose_both(*heads[row]), key="corpus-nearest")
    st.caption(f"{pairs_note(state.of(Corpus).measure)} Click a row to choose both heads.")
    name, caption = "Nearest pairs", figures.source_line(study, "pairs")
    exports.table_file(table, key="corpus-nearest-file", name=name, caption=caption)


_FORMING = {LABEL + "previous_token": "previous-token", "induction": "induction"}


def draw_training(study: Study, steps: pd.DataFrame) -> None:
    """Draw one of its metrics and labels over the steps, and say which heads came first."""
    st.header("While the model learned", anchor=False)
    st.markdown(f"{_order(steps)} {TEXTS('training.run', steps=steps['step'].max())}")
    titles = {key: metric.title for key, metric in METRICS.items()}
    titles |= {LABEL + key: f"Label: {label.title}" for key, label in LABELS.items()}
    known = {key: title for key, title in titles.items() if key in set(steps["name"])}
    if state.of(Corpus).over not in known:
        state.change(over="previous_token")
    choosing.menu("over", "Metric or label", known, width=280)
    view = state.of(Corpus)
    source = figures.source_line(study, "a run of its recipe")
    numbers = study.layer_numbers
    overview.show(figures.over_steps(steps, view.over, source, view.chosen, numbers), "steps")


def _order(steps: pd.DataFrame) -> str:
    """Say when the first head of each kind formed."""
    said = []
    for name, kind in _FORMING.items():
        if (first := formed(steps, name)) is None:
            said.append(f"{kind} head after the last step")
        else:
            head = words.head_name(first["layer"], first["head"])
            said.append(f"{kind} head by step {first['step']:,} ({head})")
    return f"**First {said[0]}, first {said[1]}.**"


_SHOWN = 12  # relations


def draw_grammar(study: Study) -> None:
    """Draw the chosen head's relations and parts of speech, beside each other."""
    st.subheader("Grammar", anchor=False)
    if not study.has_trees:
        st.markdown(TEXTS("grammar.draw"))
        return
    left, right = st.columns(2, gap="medium")
    with left:
        _relations(study)
    with right:
        figure = figures.parts_of_speech(study, state.of(Corpus).chosen)
        overview.show(figure, "speech", min_targets=MIN_TARGETS)


def _relations(study: Study) -> None:
    name = words.head_name(*state.of(Corpus).chosen)
    st.markdown("**Relations that it finds best**")
    rows = figures.of_head(study.relations, state.of(Corpus).chosen)
    rows = rows[rows["n"] >= MIN_TARGETS].sort_values(
        ["beats", "accuracy"], ascending=False, kind="stable"
    )
    table = titled(rows, study.layer_numbers).drop(columns="Head")
    if table.empty:
        st.markdown(f"No relation was asked for {MIN_TARGETS} times: the treebank is too small.")
        return
    columns = {"Relation": st.column_config.TextColumn(width=146)}
    columns |= words.number_columns(table, width=70)
    best, none = table.head(_SHOWN), words.UNDEFINED
    st.dataframe(best, hide_index=True, placeholder=none, column_config=columns)
    st.caption(TEXTS("grammar.relations", min_targets=MIN_TARGETS, min_units=MIN_UNITS))
    title, caption = f"Relations of {name}", figures.source_line(study, name)
    exports.table_file(table, key="corpus-relations", name=title, caption=caption)
    scores = {
        "trees": (study.trees, "uuas", "n_arcs"),
        "mentions": (study.coreference, "accuracy", "n"),
    }
    for what, (found, score, n) in scores.items():
        for row in figures.of_head(found, state.of(Corpus).chosen).to_dict("records"):
            told = {"share": share(row, score), "verdicts": verdicts(row, score, n)}
            st.markdown(TEXTS(f"grammar.{what}", n=row[n], **told))


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
        numbers = f"{words.format_number(row[score])} against {words.format_number(row[column])}"
        said = f"It beats {name}" if q <= RATE else f"It does not beat {name}"
        said = f"There is too little to say whether it beats {name}" if np.isnan(q) else said
        sentences.append(f"{said}: {numbers}, n = {row[n]:,}.")
    return " ".join(sentences)


def share(row: Mapping[Hashable, Any], name: str) -> str:
    """Return a share with its interval.

    >>> share({"uuas": 0.5, "low": 0.4, "high": 0.6}, "uuas")
    '0.5 (0.4 to 0.6)'
    """
    value, low, high = (words.format_number(row[column]) for column in (name, "low", "high"))
    return f"{value} ({low} to {high})"
