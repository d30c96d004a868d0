"""One relation of lab 12: its verdict, the map of all heads, and the sentences of one head."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.amounts import true_minus
from mha_viz.learn.annotated_sentences import KINDS, relations
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.what_heads_learn.numbers import FOUND, UNSURE, Finding
from mha_viz.plots.head_values import importance_map
from mha_viz.ui.state import links, selection, views
from mha_viz.ui.state.link_values import integer, one_of
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.labels import head_name

TEXTS = read_texts(__package__)
BEST = "best"  # the head that is shown where none is chosen


def draw(choices: Choices, model: str, findings: Sequence[Finding]) -> None:
    """Draw menus, and the relation that they choose if the model can see any of its kind."""
    by_relation = {finding.relation: finding for finding in findings}
    kinds = {kind: kind.capitalize() for kind in KINDS}
    kind = choices.segments("kind", "Kind of relation", kinds, KINDS[0])
    titles = {number: r.title for number, r in enumerate(relations()) if r.kind == kind}
    visible = {number: t for number, t in titles.items() if relations()[number] in by_relation}
    if not visible:
        st.info(TEXTS("summary.unseen_kind"))
        return
    name, first = f"relation-{kind}", next(iter(titles))
    if choices.get(name, first, one_of(titles)) not in visible:
        choices.keep(name, next(iter(visible)))
    number = choices.menu(name, "Relation", visible, first)
    _relation(choices, model, number, by_relation[relations()[number]])


def _relation(choices: Choices, model: str, number: int, finding: Finding) -> None:
    relation, choice = finding.relation, f"head-{number}"  # each relation has a head of its own
    head = _chosen(choices, choice, finding)
    pairs = words.count(len(finding.attended.pairs), "pair")
    st.markdown(_verdict_line(finding))
    columns = {"found": finding.score, "mean weight": finding.weight, "ahead by": finding.lead}
    columns |= {"from": finding.low, "to": finding.high}
    names = [head_name(*cell) for cell in np.ndindex(*finding.score.shape)]
    numbers = {column: values.flatten().numpy() for column, values in columns.items()}
    ends = finding.low.numpy(), finding.high.numpy()
    figure_look: dict[str, Any] = {"interval": ends, "selected": head, "dark": look.dark()}
    title = TEXTS("relation.map", relation=relation)
    settings = f"{model} · {relation.title} · {pairs}"
    figures.show(
        importance_map(finding.lead.numpy(), title, "share of pairs", **figure_look),
        key=choices.key("map"),
        on_click=lambda cell: choices.set(choice, f"{int(cell[0])}.{int(cell[1])}"),
        table=pd.DataFrame({"Head": names, **numbers}),
        **TEXTS.figure("map-figure", relation=relation, settings=settings),
    )
    TEXTS.fold(choices, "sentences", partial(_sentences, finding, head))


def _chosen(choices: Choices, choice: str, finding: Finding) -> tuple[int, int]:
    """Return the chosen head, or the best one where this model has no such head."""

    def read(raw: str) -> str:
        if raw != BEST:
            layer, head = raw.split(".")
            integer(0, 9_999)(layer), integer(0, 9_999)(head)
        return raw

    chosen, (layers, heads) = choices.get(choice, BEST, read), finding.score.shape
    if chosen == BEST:
        return finding.best
    layer, head = map(int, chosen.split("."))
    if layer < layers and head < heads:
        return layer, head
    sizes = {"layers": layers - 1, "heads": heads - 1}
    selection.add_problem(TEXTS("relation.no_head", layer=head_name(layer, head), **sizes))
    choices.keep(choice, BEST)
    return finding.best


def _verdict_line(finding: Finding) -> str:
    best, lead = finding.best, lead_in_words(finding, finding.best)
    values = {"name": head_name(*best), "finding": finding, "pairs": len(finding.attended.pairs)}
    values |= {"score": finding.score[best], "weight": finding.weight[best]}
    finds = TEXTS("relation.finds", rule=step_in_words(finding.offset), **values)
    kind = {FOUND: "found", UNSURE: "unsure"}.get(finding.verdict, "none")
    winners = ", ".join(head_name(*head) for head in finding.winners if head != best)
    more = f" So {'are' if ',' in winners else 'is'} {winners}." if winners else ""
    return TEXTS(f"relation.{kind}", finds=finds, head=values["name"], lead=lead) + more


def step_in_words(step: int) -> str:
    """Say a step between words in words.

    >>> step_in_words(1), step_in_words(-3)
    ('the next word', '3 words back')
    """
    if abs(step) == 1:
        return "the next word" if step > 0 else "the word before"
    return f"{abs(step)} words {'on' if step > 0 else 'back'}"


def lead_in_words(finding: Finding, head: tuple[int, int]) -> str:
    """Write a head's lead with its interval, in percentage points."""
    ends = (finding.lead, finding.low, finding.high)
    lead, low, high = (round(100 * float(end[head])) for end in ends)
    return true_minus(f"{lead:+d} ({low:+d} to {high:+d})")


def _sentences(finding: Finding, head: tuple[int, int]) -> None:
    """Draw every sentence with what the head attends to, and its link."""
    attended, now, name = finding.attended, selection.current(), head_name(*head)
    n_right, n_pairs = int(attended.hits[:, *head].sum()), len(attended.pairs)
    TEXTS.markdown("sentences.opening", name=name, n_right=n_right, pairs=n_pairs)
    view = replace(views.DEFAULT, model=now.model, device=now.device, dtype=now.dtype)
    view = replace(view, layer=head[0], head=head[1], words=True, show="lines")
    by_sentence: dict[int, list[str]] = {}
    for number, pair in enumerate(attended.pairs):
        parts = by_sentence.setdefault(pair.sentence, [])
        parts.append(_pair_line(finding, number, head))
    lines = []
    for sentence, parts in by_sentence.items():
        text = finding.relation.sentences[sentence].text
        address = f"./?{urlencode(links.to_params(replace(view, text=text)))}"
        lines.append(f"- [{plain(text)}]({address})  \n  {' · '.join(parts)}")
    with st.container(height=420 if len(lines) > 6 else "content"):
        st.markdown("\n".join(lines))
    TEXTS.caption("sentences.caption", name=name)


def _pair_line(finding: Finding, number: int, head: tuple[int, int]) -> str:
    """Write a mark and the words of one pair, in markdown."""
    attended, pair = finding.attended, finding.attended.pairs[number]
    sentence = finding.relation.sentences[pair.sentence].words
    query, key = sentence[pair.query], sentence[pair.key]
    weight = f"{float(attended.weight[number, *head]):.2f}"
    strongest = int(attended.strongest[number, *head])
    if strongest == pair.key:
        return f":green[✓ {query} → **{key}** {weight}]"
    attends_to = sentence[strongest] if strongest >= 0 else "nothing in particular"
    return f":red[✗ {query} → {attends_to}, not **{key}** {weight}]"
