"""Lab 12: the sentences of one head written out, and the links that open them in Explore."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import streamlit as st

from mha_viz.labs.annotated_sentences import Annotated
from mha_viz.labs.what_heads_learn import Finding
from mha_viz.ui.session import state, views
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.labels import head_name


def sentences(one: Finding, head: tuple[int, int]) -> None:
    """Every sentence with what the head looked at, and the way to it."""
    n_right = int(one.looked.hits[:, head[0], head[1]].sum())
    name = head_name(*head)
    st.markdown(f"**The sentences of {name}**: {n_right} of {len(one.looked.pairs)} pairs found.")
    by_sentence: dict[int, list[int]] = {}
    for number, pair in enumerate(one.looked.pairs):
        by_sentence.setdefault(pair.sentence, []).append(number)
    lines = [
        _line(one, one.relation.sentences[sentence], numbers, head)
        for sentence, numbers in by_sentence.items()
    ]
    with st.container(height=420 if len(lines) > 6 else "content"):
        st.markdown("\n".join(lines))
    st.caption(
        "The number is the weight on the right word, of all that the head gives, special tokens "
        f"and punctuation included. A sentence's link opens it in Explore at {name}."
    )


def _line(one: Finding, sentence: Annotated, numbers: list[int], head: tuple[int, int]) -> str:
    """One sentence in markdown: its link, and a mark and words for each of its pairs."""
    parts = []
    for number in numbers:
        pair = one.looked.pairs[number]
        query, key = sentence.words[pair.query], sentence.words[pair.key]
        weight = f"{float(one.looked.weight[number, head[0], head[1]]):.2f}"
        place = int(one.looked.strongest[number, head[0], head[1]])
        if place == pair.key:
            parts.append(f":green[✓ {query} → **{key}** {weight}]")
        else:
            seen = sentence.words[place] if place >= 0 else "nothing in particular"
            parts.append(f":red[✗ {query} → {seen}, not **{key}** {weight}]")
    return f"- [{plain(sentence.text)}]({address(sentence.text, head)})  \n  " + " · ".join(parts)


def address(text: str, head: tuple[int, int]) -> str:
    """Explore's address of a sentence and a head: whole words as lines, in a new tab."""
    view = replace(
        views.DEFAULT,
        **{name: getattr(state.current(), name) for name in ("model", "device", "dtype")},
        text=text,
        layer=head[0],
        head=head[1],
        words=True,
        show="lines",
    )
    return f"./?{urlencode(views.to_params(view))}"
