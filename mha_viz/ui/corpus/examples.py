"""The texts that show the chosen head best, as small token lines; with their gold trees, if any."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.record import AttentionRecord
from mha_viz.corpus.followed import FollowedTree, followed
from mha_viz.corpus.study import Study
from mha_viz.corpus.trees import Sentence
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.corpus.sentences import in_explore
from mha_viz.ui.session import memory, state
from mha_viz.ui.session.scene import size
from mha_viz.ui.widgets.sentence_arcs import Arc, Piece, bring_script, sentence_arcs
from mha_viz.web.theme import format_number

_EXAMPLES = 5
_MOST = 24  # weights drawn over one text, the heaviest
_WEIGHTS = (
    "Each token with the token that it looks at the most, and every weight of 0.3 or more: the "
    f"{_MOST} heaviest of each text."
)
_TREE = (
    "Above: the gold tree, from each word to its dependents; orange where the head follows the "
    "arc in one direction or both. Below: the other word of its sentence that each word looks "
    "at the most."
)


def draw(study: Study, model: AttentionModel) -> None:
    """The texts that score highest by the chosen metric, or that show the chosen label best.

    Args:
        study: that is shown.
        model: of the study; it runs a text again where its tree is wanted.
    """
    view = state.current()
    known = set(study.heads["metric"])
    by_label = view.kind in LABELS and LABELS[view.kind].metric in known
    by = view.kind if by_label else view.metric
    title = (LABELS if by_label else METRICS)[by].title
    st.subheader(f"Strongest examples by {title}", anchor=False)
    if study.has_trees:
        state.bound("gold", st.toggle, "With the gold tree")
    found = study.examples(view.layer, view.head, by=by, k=_EXAMPLES)
    if found.empty:
        st.markdown("No text defines it for this head.")
        return
    texts = found.to_dict("records")
    gold = view.gold and study.has_trees
    with st.container(gap=None):
        st.caption(_TREE if gold else _WEIGHTS)
        bring_script(key="corpus-arcs")
    of_texts = {} if gold else _heaviest(study, found)
    for place, row in enumerate(texts):
        link = in_explore(row["text"], *view.chosen)
        st.markdown(f"**{format_number(row['value'])}** – {link}")
        key = f"corpus-example-{place}"
        if gold:
            sentence = study.sentence(row["text_id"])
            _tree(sentence, followed(_record(model, sentence.text), sentence, *view.chosen), key)
        else:
            pieces, arcs = of_texts[row["text_id"]]
            sentence_arcs(pieces, arcs, key=key)


def _heaviest(study: Study, found: pd.DataFrame) -> dict[int, tuple[list[Piece], list[Arc]]]:
    """Of each text its tokens, and the weights of the chosen head that are drawn."""
    view, ids = state.current(), ", ".join(map(str, found["text_id"].tolist()))
    tokens = study.sql(
        f"SELECT text_id, tokens, is_special FROM sentences WHERE text_id IN ({ids})"
    )
    edges = study.sql(
        f"""SELECT text_id, query, key, weight FROM edges WHERE text_id IN ({ids})
        AND layer = {view.layer} AND head = {view.head} ORDER BY weight DESC, query, key"""
    )
    pieces = {
        row["text_id"]: [
            Piece(str(text), bool(special))
            for text, special in zip(row["tokens"], row["is_special"], strict=True)
        ]
        for row in tokens.to_dict("records")
    }
    return {
        text_id: (
            of_text,
            [
                Arc(int(row["query"]), int(row["key"]), float(row["weight"]))
                for row in edges[edges["text_id"] == text_id].head(_MOST).to_dict("records")
            ],
        )
        for text_id, of_text in pieces.items()
    }


def _record(model: AttentionModel, text: str) -> AttentionRecord:
    """A text run again, unless somebody has lately looked at it."""
    return memory.cache().get(
        ("example", state.current().checkpoint, text),
        lambda: model.trace(text, keep=("pattern",)),
        size,
    )


def _tree(sentence: Sentence, tree: FollowedTree, key: str) -> None:
    """A sentence by words: its tree above, and what each word looks at the most below."""
    above = [
        Arc(a.head, a.dependent, label=a.relation, marked=a.to_head or a.to_dependent)
        for a in tree.arcs
    ]
    below = [Arc(look.query, look.key, look.weight) for look in tree.looks]
    hits = sum(arc.marked for arc in above)
    sentence_arcs([Piece(word.form) for word in sentence.words], above, below, key=key)
    st.caption(f"The head follows {hits} of {len(above)} arcs.")
