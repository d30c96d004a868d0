"""Sentences of a study: the strongest examples, and the search by word, part of speech or tree."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import HeadVsTree, head_vs_tree
from mha_viz.corpus.treebank.trees import Sentence
from mha_viz.paper.figures import source_line
from mha_viz.ui.corpus import TEXTS, overview
from mha_viz.ui.run import memory
from mha_viz.ui.state import state, views
from mha_viz.ui.widgets.components.sentence_arcs import Arc, Piece, bring_script, sentence_arcs
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words
from mha_viz.web.theme import format_weight

LIMIT = 100  # rows that are found
_SHOWN = 20  # of them as sentences
_COLOURS = {"query": "violet", "key": "green"}


def draw(study: Study) -> None:
    """Draw the search, and the sentences that it finds."""
    st.header("Search", anchor=False)
    _controls(study)
    view = state.of(views.Corpus)
    relation, direction = overview.split_arc(view.along)
    layer, head = (None, None) if view.any_head else view.chosen
    found = study.search(
        query=view.from_word.strip() or None,
        key=view.to_word.strip() or None,
        layer=layer,
        head=head,
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
    st.markdown(TEXTS("search.found", n=len(found), more=more))
    _sentences(study, found.head(_SHOWN))
    table, caption = found.drop(columns=["text_id", "strongest"]), source_line(study, "search")
    with st.container(horizontal=True):
        name = "Found in a corpus"
        exports.table_file(table, key="corpus-found", name=name, caption=caption)


def _controls(study: Study) -> None:
    view = state.of(views.Corpus)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, label in (("from_word", "Token that looks"), ("to_word", "Token looked at")):
            state.bound(name, st.text_input, label, **TEXTS.control("word"))
        state.bound("min_weight", st.slider, "Weight at least", 0.0, 1.0, step=0.05, width=180)
        hint = "Only the nearest such token before it."
        state.bound("previous", st.toggle, "Previous one", help=hint)
        state.bound("any_head", st.toggle, "All heads")
    if study.has_trees:
        _grammar(study)
    elif any((view.along, view.from_upos, view.to_upos)):
        state.change(along="", from_upos="", to_upos="")
        st.info("These texts have no gold trees: relation and parts of speech were left out.")
    st.caption("In any capitals; * stands for any letters.")


def _grammar(study: Study) -> None:
    """Draw what can be searched in a treebank only."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, label in (("from_upos", "Part that looks"), ("to_upos", "Part looked at")):
            if getattr(state.of(views.Corpus), name) not in ("", *PARTS):
                state.change(**{name: ""})
            offered = {"": "any part of speech"} | {part: part for part in PARTS}
            choosing.menu(name, label, offered, width=180)
        along = overview.present_relations(study)
        overview.arc_menu("along", "Along the relation", along, none="any or none")


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
        places = {colour: row[part] for part, colour in _COLOURS.items()}
        marks = [Mark(int(starts[at]), int(ends[at]), colour) for colour, at in places.items()]
        pair = " → ".join(words.plain(row[f"{part}_token"]) for part in _COLOURS)
        head = row["layer"], row["head"]
        link = in_heads(row["text"], *head, row["query"], row["key"])
        weight, sentence = format_weight(row["weight"]), marked(row["text"], marks)
        st.markdown(f"**{weight}** {words.head_name(*head)}, {pair}: {sentence} {link}")


_AROUND = 120  # letters before and behind what is marked


class Mark(NamedTuple):
    """Letters of a text from start to end, to be marked in a colour of Streamlit's."""

    start: int
    end: int
    colour: str


def marked(text: str, marks: Sequence[Mark] = ()) -> str:
    """Return a text in markdown that shows it as it is, with marks; long ones without their ends.

    >>> marked("It fell.", [Mark(3, 7, "green")])
    'It :green-background[fell]\\\\.'
    """
    known = sorted({mark for mark in marks if 0 <= mark.start < mark.end <= len(text)})
    begin = max(0, known[0].start - _AROUND) if known else 0
    end = min(len(text), (max(mark.end for mark in known) if known else 0) + _AROUND)
    parts, at = ["… "] if begin else [], begin
    for mark in known:
        if mark.start < at:  # a token within another's letters, as the bytes of one sign
            continue
        parts.append(words.plain(text[at : mark.start]))
        parts.append(f":{mark.colour}-background[{words.plain(text[mark.start : mark.end])}]")
        at = mark.end
    parts.append(words.plain(text[at:end]))
    return "".join(parts).replace("\n", " ") + " …" * (end < len(text))


def in_heads(text: str, layer: int, head: int, query: int = -1, key: int = -1) -> str:
    """Return a markdown link to a text in Heads, on a head and perhaps a pair of tokens."""
    view = state.of(views.Corpus)
    shown = views.View(model=view.model, device=view.device, dtype=view.dtype, text=text)
    shown = replace(shown, layer=layer, head=head, query=query, key=key)
    return f"[Open in Heads](./?{urlencode(state.link_params(shown))})"


_EXAMPLES = 5
_MOST = 24  # weights drawn over one text, the heaviest


def draw_examples(study: Study) -> None:
    """Draw the texts that score highest by the chosen metric or label."""
    view = state.of(views.Corpus)
    known = set(study.heads["metric"])
    by_label = view.kind in LABELS and LABELS[view.kind].metric in known
    by = view.kind if by_label else view.metric
    title = (LABELS if by_label else METRICS)[by].title
    st.subheader(f"Strongest examples by {title}", anchor=False)
    with st.container(horizontal=True):
        if study.has_trees:
            state.bound("gold", st.toggle, "With the gold tree")
        state.bound("any_length", st.toggle, "Of any length")
    view = state.of(views.Corpus)
    matched = not view.any_length
    found = study.examples(view.layer, view.head, by=by, k=_EXAMPLES, match_length=matched)
    if found.empty:
        st.markdown("No text defines it for this head.")
        return
    texts = found.to_dict("records")
    gold = view.gold and study.has_trees
    with st.container(gap=None):
        st.caption(TEXTS("search.matched" if matched else "search.any_length"))
        st.caption(TEXTS("search.tree") if gold else TEXTS("search.weights", most=_MOST))
        bring_script(key="corpus-arcs")
    of_texts = {} if gold else _heaviest(study, found)
    for place, row in enumerate(texts):
        link = in_heads(row["text"], *view.chosen)
        ends = sorted({row["class_from"], row["class_to"]})
        others = f"texts of {' to '.join(map(str, ends))} tokens" if matched else "all texts"
        mean = f"mean of {others}: {words.format_number(row['class_mean'])}"
        value = f"**{words.format_number(row['value'])}**, {words.count(row['n_tokens'], 'token')}"
        st.markdown(f"{value} ({mean}) – {link}")
        key = f"corpus-example-{place}"
        if gold:
            sentence = study.sentence(row["text_id"])
            model = memory.model(*view.checkpoint)
            make = partial(model.trace, sentence.text, keep=("pattern",))
            key_of = "example", view.checkpoint, sentence.text
            record = memory.cache().get(key_of, make, lambda found: found.held_bytes)
            _tree(sentence, head_vs_tree(record, sentence, *view.chosen), key)
        else:
            pieces, arcs = of_texts[row["text_id"]]
            sentence_arcs(pieces, arcs, key=key)


def _heaviest(study: Study, found: pd.DataFrame) -> dict[int, tuple[list[Piece], list[Arc]]]:
    """Return each text's tokens, and the drawn weights of the chosen head."""
    view, ids = state.of(views.Corpus), ", ".join(map(str, found["text_id"].tolist()))
    tokens = study.sql(
        f"SELECT text_id, tokens, is_special FROM sentences WHERE text_id IN ({ids})"
    )
    edges = study.sql(
        f"""SELECT text_id, query, key, weight FROM edges WHERE text_id IN ({ids})
        AND layer = {view.layer} AND head = {view.head} ORDER BY weight DESC, query, key"""
    )
    found_in = {}
    for text in tokens.to_dict("records"):
        rows = edges[edges["text_id"] == text["text_id"]].head(_MOST).to_dict("records")
        arcs = [Arc(int(row["query"]), int(row["key"]), float(row["weight"])) for row in rows]
        parts = zip(text["tokens"], text["is_special"], strict=True)
        found_in[text["text_id"]] = [Piece(str(one), bool(special)) for one, special in parts], arcs
    return found_in


def _tree(sentence: Sentence, tree: HeadVsTree, key: str) -> None:
    above = [
        Arc(a.head, a.dependent, 0.0, a.relation, a.to_head or a.to_dependent) for a in tree.arcs
    ]
    below = [Arc(look.query, look.key, look.weight) for look in tree.looks]
    hits = sum(arc.marked for arc in above)
    sentence_arcs([Piece(word.form) for word in sentence.words], above, below, key=key)
    st.caption(f"The head follows {hits} of {len(above)} arcs.")
