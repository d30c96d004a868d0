"""The search of the Corpus page: which token looks at which, by its word, its part or its tree."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mha_viz.corpus.speech import PARTS
from mha_viz.corpus.study import Study
from mha_viz.ui.corpus import arcs
from mha_viz.ui.corpus.overview import settings
from mha_viz.ui.corpus.sentences import Mark, in_explore, marked
from mha_viz.ui.session import state
from mha_viz.ui.widgets import choosing, exports
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

LIMIT = 100  # rows that are found
_SHOWN = 20  # of them as sentences
_COLOURS = {"query": "violet", "key": "green"}


def draw(study: Study) -> None:
    """The words to search for, and the sentences in which one looks at the other."""
    st.header("Search", anchor=False)
    _controls(study)
    view = state.current()
    relation, direction = arcs.parted(view.along)
    found = study.search(
        query=view.from_word.strip() or None,
        key=view.to_word.strip() or None,
        layer=None if view.any_head else view.layer,
        head=None if view.any_head else view.head,
        relation=relation or None,
        min_weight=view.min_weight,
        limit=LIMIT,
        direction=direction or None,
        query_upos=view.from_upos or None,
        key_upos=view.to_upos or None,
        previous=view.previous,
    )
    if found.empty:
        st.info("Nothing found: take less weight, all heads, or ask for less.")
        return
    more = f", the heaviest {LIMIT}" * (len(found) == LIMIT)
    st.markdown(
        f"Found: **{len(found)}**{more}. :violet-background[Violet] looks at "
        ":green-background[green]."
    )
    _sentences(study, found.head(_SHOWN))
    table = found.drop(columns=["text_id", "strongest"])
    with st.container(horizontal=True):
        exports.table_file(
            table, key="corpus-found", name="Found in a corpus", caption=settings(study, "search")
        )


def _controls(study: Study) -> None:
    view = state.current()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, label in (("from_word", "Token that looks"), ("to_word", "Token looked at")):
            state.bound(
                name, st.text_input, label, placeholder="any token", width=180, max_chars=100
            )
        state.bound(
            "min_weight",
            st.slider,
            "Weight at least",
            min_value=0.0,
            max_value=1.0,
            step=0.05,
            width=180,
        )
        state.bound(
            "previous", st.toggle, "Previous one", help="Only the nearest such token before it."
        )
        state.bound("any_head", st.toggle, "All heads")
    if study.has_trees:
        _grammar(study)
    elif any((view.along, view.from_upos, view.to_upos)):
        state.change(along="", from_upos="", to_upos="")
        st.info("These texts have no gold trees: relation and parts of speech were left out.")
    st.caption("In any capitals; * stands for any letters.")


def _grammar(study: Study) -> None:
    """What only a treebank can be asked."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, label in (("from_upos", "Part that looks"), ("to_upos", "Part looked at")):
            if getattr(state.current(), name) not in ("", *PARTS):
                state.change(**{name: ""})
            offered = {"": "any part of speech"} | {part: part for part in PARTS}
            choosing.menu(name, label, offered, width=180)
        arcs.menu("along", "Along the relation", arcs.there(study), none="any or none")


def _sentences(study: Study, found: pd.DataFrame) -> None:
    ids = ", ".join(str(int(one)) for one in sorted(set(found["text_id"])))
    # a special token has no letters
    spans = study.sql(
        f"""SELECT text_id, list_transform(starts, lambda x: coalesce(x, -1)) AS starts,
        list_transform(ends, lambda x: coalesce(x, -1)) AS ends
        FROM sentences WHERE text_id IN ({ids})"""
    )
    known = {row["text_id"]: (row["starts"], row["ends"]) for row in spans.to_dict("records")}
    for row in found.to_dict("records"):
        starts, ends = known[row["text_id"]]
        marks = [
            Mark(int(starts[row[part]]), int(ends[row[part]]), colour)
            for part, colour in _COLOURS.items()
        ]
        words = " → ".join(plain(row[f"{part}_token"]) for part in _COLOURS)
        head = row["layer"], row["head"]
        link = in_explore(row["text"], *head, row["query"], row["key"])
        weight, sentence = format_number(row["weight"]), marked(row["text"], marks)
        st.markdown(f"**{weight}** {head_name(*head)}, {words}: {sentence} {link}")
