"""Find: the texts on which a head scores highest, and pairs of tokens by word or by grammar."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
import streamlit as st

from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.paper.all_heads import arc_title, split_arc
from mha_viz.paper.figures import source_line
from mha_viz.ui.many_texts import TEXTS, examples, measures
from mha_viz.ui.many_texts.heads_link import heads_address
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import FINDS, ManyTexts
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words
from mha_viz.web.theme import format_weight

LIMIT = 100  # rows that are found
_SHOWN = 20  # of them as sentences
_COLOURS = {"query": "violet", "key": "green"}


def draw(study: Study, view: ManyTexts) -> None:
    """Draw the form, and the sentences that it finds."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.segments("find", "Find", FINDS)
        if view.find == "scores":
            _score_controls(study, view)
        else:
            _pair_controls(study)
    if view.find == "scores":
        link = partial(in_heads, view)
        examples.draw(study, view, link)
    else:
        _pairs(study, view)


def _score_controls(study: Study, view: ManyTexts) -> None:
    measures.score_menu(study, view)
    if study.has_trees:
        selection.bound("gold", st.toggle, "With the gold tree")
    with choosing.more("find-more"):
        selection.bound("any_length", st.toggle, "Of any length")


def _pair_controls(study: Study) -> None:
    for name, label in (("from_word", "Token that looks"), ("to_word", "Token looked at")):
        selection.bound(name, st.text_input, label, **TEXTS.control("word"))
    selection.bound("any_head", st.toggle, "All heads")
    with choosing.more("find-more"):
        selection.bound("min_weight", st.slider, "Weight at least", 0.0, 1.0, step=0.05)
        hint = "Only the nearest such token before it."
        selection.bound("previous", st.toggle, "Previous one", help=hint)
        if study.has_trees:
            _grammar_controls(study)


def _grammar_controls(study: Study) -> None:
    """Draw the controls that need a treebank."""
    offered = {"": "any part of speech"} | {part: part for part in PARTS}
    for name, label in (("from_upos", "Part that looks"), ("to_upos", "Part looked at")):
        choosing.menu(name, label, offered)
    along = {"": "any or none"} | {arc: arc_title(arc) for arc in measures.token_relations(study)}
    choosing.menu("along", "Along the relation", along)


def _pairs(study: Study, view: ManyTexts) -> None:
    relation, direction = split_arc(view.along)
    layer, head = (None, None) if view.any_head else view.chosen
    matches = study.search(
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
    if matches.empty:
        st.info("Nothing found: take less weight, all heads, or ask for less.")
        return
    more = f", the heaviest {LIMIT}" * (len(matches) == LIMIT)
    st.markdown(TEXTS("find.found", n=len(matches), more=more, terms=_terms(view)))
    _sentences(study, view, matches.head(_SHOWN))
    table, caption = matches.drop(columns=["text_id", "strongest"]), source_line(study, "search")
    downloads.table_file(table, key="many-found", name="Found in many texts", caption=caption)


def _terms(view: ManyTexts) -> str:
    """Say what was searched for by the menu "More".

    >>> _terms(ManyTexts(from_upos="VERB", previous=True))
    'Weight 0.3 or more, VERB → any, the previous one.'
    """
    terms = [f"Weight {words.format_number(view.min_weight)} or more"]
    if view.from_upos or view.to_upos:
        terms.append(f"{view.from_upos or 'any'} → {view.to_upos or 'any'}")
    if view.along:
        terms.append(words.plain(arc_title(view.along)))
    return ", ".join([*terms, *["the previous one"] * view.previous]) + "."


def _sentences(study: Study, view: ManyTexts, matches: pd.DataFrame) -> None:
    ids = ", ".join(str(int(text_id)) for text_id in sorted(set(matches["text_id"])))
    # a special token has no letters
    spans = study.sql(
        f"""SELECT text_id, list_transform(starts, lambda x: coalesce(x, -1)) AS starts,
        list_transform(ends, lambda x: coalesce(x, -1)) AS ends
        FROM sentences WHERE text_id IN ({ids})"""
    )
    of_text = {row["text_id"]: (row["starts"], row["ends"]) for row in spans.to_dict("records")}
    for row in matches.to_dict("records"):
        starts, ends = of_text[row["text_id"]]
        positions = {colour: row[part] for part, colour in _COLOURS.items()}
        marks = [Mark(int(starts[at]), int(ends[at]), colour) for colour, at in positions.items()]
        pair = " → ".join(words.plain(row[f"{part}_token"]) for part in _COLOURS)
        head = row["layer"], row["head"]
        link = in_heads(view, row["text"], *head, row["query"], row["key"])
        weight, sentence = format_weight(row["weight"]), marked(row["text"], marks)
        st.markdown(f"**{weight}** {words.head_name(*head)}, {pair}: {sentence} {link}")


def in_heads(
    view: ManyTexts, text: str, layer: int, head: int, query: int = -1, key: int = -1
) -> str:
    """Return a markdown link to a text in Heads, on a head and perhaps a pair of tokens."""
    address = heads_address(view, text, (layer, head), query, key)
    return f"[Open in Heads]({address})"


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
    valid = sorted({mark for mark in marks if 0 <= mark.start < mark.end <= len(text)})
    begin = max(0, valid[0].start - _AROUND) if valid else 0
    end = min(len(text), (max(mark.end for mark in valid) if valid else 0) + _AROUND)
    parts, at = ["… "] if begin else [], begin
    for mark in valid:
        if mark.start < at:  # a token within another's letters, as the bytes of one sign
            continue
        parts.append(words.plain(text[at : mark.start]))
        parts.append(f":{mark.colour}-background[{words.plain(text[mark.start : mark.end])}]")
        at = mark.end
    parts.append(words.plain(text[at:end]))
    return "".join(parts).replace("\n", " ") + " …" * (end < len(text))
