"""One head against the gold trees of a study: parts of speech, and the relations it finds."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import streamlit as st

from mha_viz.core.metrics.chance import RATE
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.best_heads import BASELINES
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import MIN_TARGETS
from mha_viz.paper.figures import of_head, parts_of_speech, source_line
from mha_viz.paper.report import titled
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.corpus.overview import show
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import exports
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

_SHOWN = 12  # relations


def draw(study: Study) -> None:
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
        width="stretch",
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
