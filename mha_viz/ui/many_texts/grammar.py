"""Grammar: which head finds what in gold trees, and what the chosen one finds."""

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from mha_viz.core.metrics.chance import RATE
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.best_heads import BASELINES
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import MIN_TARGETS
from mha_viz.paper import figures
from mha_viz.paper.report import NOTES, answer, head_relations, titled
from mha_viz.ui.many_texts import TEXTS, measures
from mha_viz.ui.many_texts.study_figure import show
from mha_viz.ui.state.views import QUESTIONS, ManyTexts
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words

_HEIGHT = 320  # pixels of the table of best heads
_SHOWN = 12  # relations
_TOO_SMALL = f"No relation was asked for {MIN_TARGETS} times: the treebank is too small."


def draw(study: Study, view: ManyTexts) -> None:
    """Draw the best heads for gold trees, and the chosen head's relations and parts of speech."""
    if not study.has_trees:
        st.markdown(TEXTS("grammar.draw"))
        return
    _best(study, view)
    name = words.head_name(*view.chosen)
    st.header(f"What {name} finds", anchor=False)
    _sentences(study, view)
    look.beside([3, 2], partial(_relations, study, view), partial(_parts_of_speech, study, view))


def _best(study: Study, view: ManyTexts) -> None:
    choosing.segments("question", "Question", QUESTIONS, label_visibility="collapsed")
    by = view.question
    best = measures.best_heads(study, by)
    if best.empty:
        st.markdown(_TOO_SMALL)
        return
    st.markdown(answer(best, by, study.layer_numbers))
    table, heads = titled(best, study.layer_numbers), best[["layer", "head"]].to_numpy().tolist()
    key = f"best-heads-{by}"
    words.choosable(table, lambda row: words.choose(heads[row]), key=key, height=_HEIGHT)
    st.caption(f"{NOTES[by]} Click a row to see its head below.")
    name = f"Best heads: {QUESTIONS[by].lower()}"
    caption = figures.source_line(study, study.unit_note)
    downloads.table_file(table, key=f"best-{by}", name=name, caption=caption)


def _parts_of_speech(study: Study, view: ManyTexts) -> None:
    figure = figures.parts_of_speech(study, view.chosen)
    show(figure, "speech", min_targets=MIN_TARGETS)


def _relations(study: Study, view: ManyTexts) -> None:
    name = words.head_name(*view.chosen)
    st.markdown("**Relations that it finds best**")
    table = head_relations(measures.relation_scores(study), view.chosen, study.layer_numbers)
    if table.empty:
        st.markdown(_TOO_SMALL)
        return
    words.plain_table(table.head(_SHOWN))
    st.caption(TEXTS("grammar.relations", min_targets=MIN_TARGETS, min_units=MIN_UNITS))
    title, caption = f"Relations of {name}", figures.source_line(study, name)
    downloads.table_file(table, key="many-relations", name=title, caption=caption)


def _sentences(study: Study, view: ManyTexts) -> None:
    """Say how many gold arcs and antecedents the head finds, and which baselines it beats."""
    scores = {
        "trees": (study.trees, "uuas", "n_arcs"),
        "mentions": (study.coreference, "accuracy", "n"),
    }
    for kind, (rows, score, n) in scores.items():
        for row in figures.of_head(rows, view.chosen).to_dict("records"):
            values = {"share": share(row, score), "verdicts": verdicts(row, score, n)}
            st.markdown(TEXTS(f"grammar.{kind}", n=row[n], **values))


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
        verdict = f"It beats {name}" if q <= RATE else f"It does not beat {name}"
        verdict = f"There is too little to say whether it beats {name}" if np.isnan(q) else verdict
        sentences.append(f"{verdict}: {numbers}, n = {row[n]:,}.")
    return " ".join(sentences)


def share(row: Mapping[Hashable, Any], name: str) -> str:
    """Return a share with its interval.

    >>> share({"uuas": 0.5, "low": 0.4, "high": 0.6}, "uuas")
    '0.5 (0.4 to 0.6)'
    """
    value, low, high = (words.format_number(row[column]) for column in (name, "low", "high"))
    return f"{value} ({low} to {high})"
