"""Best heads for what gold trees ask: beside their baselines, with a verdict."""

import pandas as pd
import streamlit as st

from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.best_heads import BEATS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import MIN_TARGETS
from mha_viz.paper.figures import source_line
from mha_viz.ui.corpus import TEXTS, arcs
from mha_viz.ui.state import state
from mha_viz.ui.state.views import QUESTIONS, Corpus
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name

COLUMNS = {
    "relation": "Relation",
    "from_upos": "From",
    "to_upos": "To",
    "head": "Head",
    "accuracy": "Accuracy",
    "uuas": "UUAS",
    "weight": "Weight",
    "expected": "Spread evenly",
    "offset_baseline": "Offset",
    "branching_baseline": "Neighbours",
    "nearest_baseline": "Nearest",
    "same_word_baseline": "Same word",
    "random_baseline": "Random",
    "verdict": "Verdict",
    "beats": "Beats both",
    "low": "Low",
    "high": "High",
    "n": "n",
    "n_arcs": "n",
    "n_words": "n",
    "p": "p",
    "q": "q",
}
_HEIGHT = 320  # pixels: the map of heads begins on the first screen


def draw(study: Study) -> None:
    """Draw the table of best heads; a study without gold trees has none."""
    if not study.has_trees:
        return
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
    told = TEXTS(f"best_heads.{by}", min_targets=MIN_TARGETS, min_units=MIN_UNITS)
    st.caption(f"{told} Click a row to see its head below.")
    exports.table_file(
        table,
        key=f"best-{by}",
        name=f"Best heads: {QUESTIONS[by].lower()}",
        caption=source_line(study, study.unit_note),
    )


def titled(found: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `Study.best_heads` or of one head's relations as they are on screen."""
    table = found.assign(
        head=[head_name(*place) for place in found[["layer", "head"]].to_numpy().tolist()]
    )
    if "relation" in table:
        table["relation"] = (table["relation"] + "." + table["direction"]).map(arcs.short_title)
    shown = [name for name in COLUMNS if name in table]
    return table[shown].rename(columns=COLUMNS).reset_index(drop=True)


def answer(found: pd.DataFrame, by: str) -> str:
    """Sum the table up in a sentence.

    >>> rows = {"relation": ["det"], "direction": ["to_head"], "layer": [0], "head": [3]}
    >>> rows |= {"accuracy": [0.81], "verdict": ["beats all"]}
    >>> answer(pd.DataFrame(rows), "relations")
    '**Relations with a head that beats its baselines: 1 of 1**, as det → head by L0 H3 (0.81).'
    """
    table = titled(found)
    if "verdict" not in found:
        first = table.iloc[0]
        return (
            f"**Most above an even spread**: {first['Head']}, from {first['From']} to "
            f"{first['To']} ({first['Weight']:.2f} against {first['Spread evenly']:.2f})."
        )
    known, score = table[found["verdict"] == BEATS], "UUAS" if by == "trees" else "Accuracy"
    whose = "Relations with a head that beats its" if by == "relations" else "Heads that beat their"
    told = f"**{whose} baselines: {len(known)} of {len(found):,}**"
    names = [f"{row.get('Relation', '')} by {row['Head']} ({row[score]:.2f})".removeprefix(" by ")
             for row in known.head(3).to_dict("records")]  # fmt: skip
    return f"{told}, as {', '.join(names)}." if names else f"{told}."
