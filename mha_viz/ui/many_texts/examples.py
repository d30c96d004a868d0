"""The texts on which a head scores highest, drawn with its weights or with their gold trees."""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import HeadVsTree, head_vs_tree
from mha_viz.corpus.treebank.trees import Sentence
from mha_viz.ui.many_texts import TEXTS, measures
from mha_viz.ui.run import memory
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets.components.sentence_arcs import Arc, Piece, bring_script, sentence_arcs
from mha_viz.ui.widgets.messages import words

_EXAMPLES = 5
MAX_ARCS = 24  # weights drawn over one text, the heaviest


def draw(study: Study, view: ManyTexts, link: Callable[..., str]) -> None:
    """Draw the texts that score highest by the chosen metric or label.

    `link` returns the markdown of a link to Heads, by a text, a layer and a head.
    """
    by, matched = measures.score(view), not view.any_length
    texts = study.examples(view.layer, view.head, by=by, k=_EXAMPLES, match_length=matched)
    if texts.empty:
        st.markdown("No text defines it for this head.")
        return
    name, title = words.head_name(*view.chosen), measures.score_title(view)
    st.markdown(f"**Strongest texts of {name} by {title}**")
    with st.container(gap=None):
        st.caption(TEXTS("find.matched" if matched else "find.any_length"))
        st.caption(TEXTS("find.tree") if view.gold else TEXTS("find.weights", most=MAX_ARCS))
        bring_script(key="many-arcs-script")
    arcs = {} if view.gold else heaviest(study, view.chosen, texts["text_id"].tolist())
    for number, row in enumerate(texts.to_dict("records")):
        st.markdown(f"{_about(row, matched)} – {link(row['text'], *view.chosen)}")
        key = f"many-example-{number}"
        if view.gold:
            _gold(study, view, row["text_id"], key)
        else:
            pieces, drawn = arcs[row["text_id"]]
            sentence_arcs(pieces, drawn, key=key)


def _about(row: Mapping[Hashable, Any], matched: bool) -> str:
    """Write a text's score beside the scores of texts of its length."""
    ends = sorted({row["class_from"], row["class_to"]})
    compared = f"texts of {' to '.join(map(str, ends))} tokens" if matched else "all texts"
    mean = f"mean of {compared}: {words.format_number(row['class_mean'])}"
    tokens = words.count(row["n_tokens"], "token")
    return f"**{words.format_number(row['value'])}**, {tokens} ({mean})"


def heaviest(
    study: Study, head: tuple[int, int], ids: list[int]
) -> dict[int, tuple[list[Piece], list[Arc]]]:
    """Return the tokens of each of some texts, and the heaviest weights of a head between them."""
    some = ", ".join(str(int(text_id)) for text_id in ids)
    tokens = study.sql(
        f"SELECT text_id, tokens, is_special FROM sentences WHERE text_id IN ({some})"
    )
    edges = study.sql(
        f"""SELECT text_id, query, key, weight FROM edges WHERE text_id IN ({some})
        AND layer = {int(head[0])} AND head = {int(head[1])} ORDER BY weight DESC, query, key"""
    )
    return {
        text["text_id"]: (_pieces(text), _arcs(edges, text["text_id"]))
        for text in tokens.to_dict("records")
    }


def _pieces(text: Mapping[Hashable, Any]) -> list[Piece]:
    parts = zip(text["tokens"], text["is_special"], strict=True)
    return [Piece(str(token), bool(is_special)) for token, is_special in parts]


def _arcs(edges: pd.DataFrame, text_id: int) -> list[Arc]:
    rows = edges[edges["text_id"] == text_id].head(MAX_ARCS).to_dict("records")
    return [Arc(int(row["query"]), int(row["key"]), float(row["weight"])) for row in rows]


def _gold(study: Study, view: ManyTexts, text_id: int, key: str) -> None:
    sentence = study.sentence(text_id)
    model = memory.model(*view.checkpoint)
    trace = partial(model.trace, sentence.text, keep=("pattern",))
    key_of = "example", view.checkpoint, sentence.text
    record = memory.cache().get(key_of, trace, lambda record: record.held_bytes)
    _tree(sentence, head_vs_tree(record, sentence, *view.chosen), key)


def _tree(sentence: Sentence, tree: HeadVsTree, key: str) -> None:
    above = [
        Arc(a.head, a.dependent, 0.0, a.relation, a.to_head or a.to_dependent) for a in tree.arcs
    ]
    below = [Arc(*strongest) for strongest in tree.strongest]
    hits = sum(arc.marked for arc in above)
    sentence_arcs([Piece(word.form) for word in sentence.words], above, below, key=key)
    st.caption(f"The head follows {hits} of {len(above)} arcs.")
