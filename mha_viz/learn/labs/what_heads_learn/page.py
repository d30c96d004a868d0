"""The page of lab 12: measure all heads, and read what the best of them attends to."""

from collections import Counter
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.amounts import format_number, format_share, true_minus
from mha_viz.engine.model import AttentionModel
from mha_viz.learn.annotated_sentences import KINDS, Relation, distinct_texts, relations
from mha_viz.learn.frame import layout
from mha_viz.learn.frame.choices import Choices, among
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.what_heads_learn import numbers as lab
from mha_viz.plots.both_sides import Claim, both_sides
from mha_viz.plots.head_values import importance_map
from mha_viz.ui.heads import picking
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state import allowed, links, selection, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.link_values import integer
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.labels import head_name

TEXTS = read_texts(__package__)

Findings = dict[int, lab.Finding]  # by the number of the relation
PUBLISHED = ("google-bert/bert-base-uncased", "bert-base-uncased", "openai-community/gpt2", "gpt2")
MARKS = {lab.FOUND: "✓ found", lab.UNSURE: "? not sure", lab.NONE: "✗ none here"}
VERDICTS = (lab.FOUND, lab.NONE, lab.UNSURE)
BATCH_TOKENS = 200  # of a batch of sentences, about
BEST = "best"  # the head that is shown where none is chosen


def draw(choices: Choices) -> None:
    """Draw the question, all relations at a glance, and one of them with its sentences.

    No fragment: the button in it could not end its own run.
    """
    model = picking.picked_model()
    choices.get("kind", KINDS[0], among(KINDS))  # further down; the link keeps them
    for kind in KINDS:
        _relation_of(choices, kind)
    relation = relations()[0]
    step, share = best_step(relation)
    values = {"relation": relation, "rule": _step_in_words(step), "share": share, "lab": lab}
    cover, _, result = TEXTS.opening(choices, "step", (2, 3), **values)
    checkpoint, n_steps = selection.current().checkpoint, lab.n_steps(model)
    make = partial(lab.measure, heavy.model_of(checkpoint))
    stored = next((run for run in lab.STORED if run.settings == checkpoint), None)
    run = LabRun(make, checkpoint, n_steps, stored, heavy.seconds(model, n_steps * BATCH_TOKENS))
    with result:
        placeholder = layout.placeholder(choices, "picture")
        measured = offer_run(choices, run, name="measure", label="Measure every head")
    if measured:
        findings = numbered(measured)
        with placeholder, cover():
            _summary(choices, findings)
        number = _pick(choices, findings)
        if number is not None:
            _relation(choices, model.name, number, findings[number])
    TEXTS.fold(choices, "counting", count=len(distinct_texts()))
    types = partial(_types, choices, model)
    TEXTS.fold(choices, "types", types, sentence=lab.EXAMPLE, model=model.name)
    TEXTS.fold(choices, "larger", partial(_offer, model))


def numbered(findings: list[lab.Finding]) -> Findings:
    """Index findings by the number of their relation: a model may not see every one."""
    numbers = {relation: number for number, relation in enumerate(relations())}
    return {numbers[finding.relation]: finding for finding in findings}


def best_step(relation: Relation) -> tuple[int, float]:
    """Return the step between words that finds the most pairs, and the share that it finds."""
    steps = Counter(key - query for s in relation.sentences for query, key in s.pairs)
    step, count = steps.most_common(1)[0]
    return step, count / steps.total()


def _step_in_words(step: int) -> str:
    """Say a step between words in words.

    >>> _step_in_words(1), _step_in_words(-3)
    ('the next word', '3 words back')
    """
    if abs(step) == 1:
        return "the next word" if step > 0 else "the word before"
    return f"{abs(step)} words {'on' if step > 0 else 'back'}"


def _types(choices: Choices, model: AttentionModel) -> None:
    """Draw for each type of head the strongest one on one sentence, beside chance."""
    untrained = memory.untrained_copy(*selection.current().checkpoint)
    names = TEXTS.labels("types.pairs")
    rows = []
    for typed in lab.typed_heads(model, untrained):
        chance = words.UNDEFINED if typed.random is None else format_number(typed.random)
        pair, weight = f"{typed.query} → {typed.key}", format_number(typed.weight)
        rows.append((names[typed.kind], pair, head_name(*typed.head), weight, chance))
    columns = list(TEXTS.labels("types.columns").values())
    table = pd.DataFrame(rows, columns=columns if rows else None)
    st.dataframe(table, hide_index=True, key=choices.key("types-table"))
    TEXTS.caption("types.caption")


def _offer(model: AttentionModel) -> None:
    """Offer the larger models in which such heads were described, where this machine has them."""
    published = [info.name for info in allowed.models() if info.name in PUBLISHED]
    TEXTS.markdown("larger.there" if published else "larger.missing")

    @guarded
    def take(name: str) -> None:
        selection.change(model=name, query=-1, key=-1)

    with st.container(horizontal=True):
        for name in published:
            key, is_chosen = f"what-heads-learn-take-{name}", name == model.name
            st.button(name, key=key, on_click=take, args=(name,), disabled=is_chosen)


def _summary(choices: Choices, findings: Findings) -> None:
    """Draw all relations as rows: the best head's share of pairs beside its better opponent's."""
    counts = Counter(finding.verdict for finding in findings.values())
    n_found = words.count(counts[lab.FOUND], "relation")
    values = {"unsure": counts[lab.UNSURE], "none": counts[lab.NONE], "total": len(findings)}
    TEXTS.markdown("summary.text", found=n_found, **values)
    unseen = len(relations()) - len(findings)
    if unseen:
        TEXTS.caption("summary.unseen", count=unseen)
    rows, claims = [], []
    for finding in findings.values():
        best, name = finding.best, head_name(*finding.best)
        share, lead = format_share(finding.score[best]), _ahead(finding, best)
        offset = format_number(finding.offset, signed=True)
        step = f"{format_share(finding.offset_score)} ({offset})"
        relation, mark = finding.relation, MARKS[finding.verdict]
        counted = mark, relation.kind, relation.title, len(finding.attended.pairs)
        rows.append((*counted, name, share, step, format_share(finding.random_score), lead))
        claims.append(
            Claim(
                f"{mark[0]} {name}: {relation.title}",
                finding.score[best].reshape(1),
                (finding.score - finding.lead)[best].reshape(1),
                [finding.verdict],
                [f"{name} finds {share}, ahead by {lead} points"],
            )
        )
    sides, x_title = ("best head", "better of step and random weights"), "share of pairs found"
    figures.show(
        both_sides(claims, sides, VERDICTS, x_title, row=38, dark=look.dark()),
        key=choices.key("summary"),
        table=pd.DataFrame(rows, columns=list(TEXTS.labels("summary.columns").values())),
        **TEXTS.figure("summary-figure", n_seeds=lab.N_SEEDS),
    )


def _ahead(finding: lab.Finding, head: tuple[int, int]) -> str:
    """Write a head's lead with its interval, in percentage points."""
    ends = (finding.lead, finding.low, finding.high)
    lead, low, high = (round(100 * float(end[head])) for end in ends)
    return true_minus(f"{lead:+d} ({low:+d} to {high:+d})")


def _pick(choices: Choices, findings: Findings) -> int | None:
    """Draw the menus; return the relation shown, None where the model can see none of its kind."""
    kinds = {kind: kind.capitalize() for kind in KINDS}
    kind = choices.segments("kind", "Kind of relation", kinds, KINDS[0])
    offered = [number for number in _numbers(kind) if number in findings]
    if not offered:
        st.info(TEXTS("summary.unseen_kind"))
        return None
    if _relation_of(choices, kind) not in offered:
        choices.keep(f"relation-{kind}", offered[0])
    titles = {number: relations()[number].title for number in offered}
    return choices.menu(f"relation-{kind}", "Relation", titles, _numbers(kind)[0])


def _relation_of(choices: Choices, kind: str) -> int:
    return choices.get(f"relation-{kind}", _numbers(kind)[0], among(_numbers(kind)))


def _numbers(kind: str) -> list[int]:
    return [number for number, relation in enumerate(relations()) if relation.kind == kind]


def _relation(choices: Choices, model: str, number: int, finding: lab.Finding) -> None:
    relation, choice = finding.relation, f"head-{number}"  # each relation has a head of its own
    layer, head = _chosen(choices, choice, finding)
    pairs = words.count(len(finding.attended.pairs), "pair")
    st.markdown(_verdict_line(finding))
    columns = {"found": finding.score, "mean weight": finding.weight, "ahead by": finding.lead}
    columns |= {"from": finding.low, "to": finding.high}
    names = [head_name(*cell) for cell, _ in np.ndenumerate(finding.score.numpy())]
    numbers = {column: values.flatten().numpy() for column, values in columns.items()}
    figures.show(
        importance_map(
            finding.lead.numpy(),
            f"{relation.title}: ahead of both",
            "share of pairs",
            interval=(finding.low.numpy(), finding.high.numpy()),
            selected=(layer, head),
            dark=look.dark(),
        ),
        key=choices.key("map"),
        on_click=lambda cell: choices.set(choice, f"{int(cell[0])}.{int(cell[1])}"),
        table=pd.DataFrame({"Head": names, **numbers}),
        **TEXTS.figure(
            "map-figure", relation=relation, settings=f"{model} · {relation.title} · {pairs}"
        ),
    )
    TEXTS.fold(choices, "sentences", partial(_sentences, finding, (layer, head)))


def _chosen(choices: Choices, choice: str, finding: lab.Finding) -> tuple[int, int]:
    def read(raw: str) -> str:
        if raw != BEST:
            layer, head = raw.split(".")
            integer(0, 9_999)(layer), integer(0, 9_999)(head)
        return raw

    chosen = choices.get(choice, BEST, read)
    if chosen == BEST:
        return finding.best
    layer, head = (int(number) for number in chosen.split("."))
    layers, heads = finding.score.shape
    if layer < layers and head < heads:
        return layer, head
    sizes = {"layers": layers - 1, "heads": heads - 1}
    selection.add_problem(TEXTS("relation.no_head", layer=head_name(layer, head), **sizes))
    choices.keep(choice, BEST)
    return finding.best


def _verdict_line(finding: lab.Finding) -> str:
    name, best, pairs = head_name(*finding.best), finding.best, len(finding.attended.pairs)
    values = {"name": name, "finding": finding, "rule": _step_in_words(finding.offset)}
    values |= {"score": finding.score[best], "weight": finding.weight[best]}
    finds, lead = TEXTS("relation.finds", pairs=pairs, **values), _ahead(finding, best)
    if finding.verdict != lab.FOUND:
        kind = "unsure" if finding.verdict == lab.UNSURE else "none"
        return TEXTS(f"relation.{kind}", finds=finds, lead=lead)
    winners = ", ".join(head_name(*head) for head in finding.winners if head != best)
    more = f" So {'are' if ',' in winners else 'is'} {winners}." if winners else ""
    return TEXTS("relation.found", finds=finds, head=name, lead=lead) + more


def _sentences(finding: lab.Finding, head: tuple[int, int]) -> None:
    """Draw every sentence with what the head attends to, and its link."""
    n_right = int(finding.attended.hits[:, head[0], head[1]].sum())
    name, pairs = head_name(*head), finding.attended.pairs
    TEXTS.markdown("sentences.opening", name=name, n_right=n_right, pairs=len(pairs))
    by_sentence: dict[int, list[str]] = {}
    for number, pair in enumerate(pairs):
        parts = by_sentence.setdefault(pair.sentence, [])
        parts.append(_pair_line(finding, number, head))
    lines = []
    for sentence, parts in by_sentence.items():
        text = finding.relation.sentences[sentence].text
        lines.append(f"- [{plain(text)}]({_address(text, head)})  \n  {' · '.join(parts)}")
    with st.container(height=420 if len(lines) > 6 else "content"):
        st.markdown("\n".join(lines))
    TEXTS.caption("sentences.caption", name=name)


def _pair_line(finding: lab.Finding, number: int, head: tuple[int, int]) -> str:
    """Write a mark and the words of one pair, in markdown."""
    attended, pair = finding.attended, finding.attended.pairs[number]
    sentence = finding.relation.sentences[pair.sentence].words
    query, key = sentence[pair.query], sentence[pair.key]
    weight = f"{float(attended.weight[number, head[0], head[1]]):.2f}"
    strongest = int(attended.strongest[number, head[0], head[1]])
    if strongest == pair.key:
        return f":green[✓ {query} → **{key}** {weight}]"
    attends_to = sentence[strongest] if strongest >= 0 else "nothing in particular"
    return f":red[✗ {query} → {attends_to}, not **{key}** {weight}]"


def _address(text: str, head: tuple[int, int]) -> str:
    """Return the address in Heads of a sentence and a head: whole words as lines."""
    now = selection.current()
    view = replace(views.DEFAULT, model=now.model, device=now.device, dtype=now.dtype, text=text)
    view = replace(view, layer=head[0], head=head[1], words=True, show="lines")
    return f"./?{urlencode(links.to_params(view))}"
