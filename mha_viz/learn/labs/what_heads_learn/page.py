"""The page of lab 12: measure all heads, and read what the best of them attends to."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.learn.annotated_sentences import KINDS, Annotated, Relation, relations
from mha_viz.learn.frame import frame
from mha_viz.learn.frame.choices import Choices, among
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.questions import Cover
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.what_heads_learn import numbers as lab
from mha_viz.plots.both_sides import Claim, both_sides
from mha_viz.plots.head_values import importance_map
from mha_viz.ui.heads import picking
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state import allowed, links, state, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number, true_minus

TEXTS = read_texts(__package__)

Found = dict[int, lab.Finding]  # by the number of the relation
PUBLISHED = ("google-bert/bert-base-uncased", "bert-base-uncased", "openai-community/gpt2", "gpt2")
MARKS = {lab.FOUND: "✓ found", lab.UNSURE: "? not sure", lab.NONE: "✗ none here"}
VERDICTS = (lab.FOUND, lab.NONE, lab.UNSURE)
TOKENS = 200  # of a batch of sentences, about
BEST = "best"  # the head that is shown where none is chosen


def draw(choices: Choices) -> None:
    """Draw the question, all relations at a glance, and one of them with its sentences.

    No fragment: the button in it could not end its own run.
    """
    model = picking.picked_model()
    choices.get("kind", KINDS[0], among(KINDS))  # further down; the link keeps them
    for kind in KINDS:
        _relation_of(choices, kind)
    asked, result = st.columns([2, 3], gap="medium")
    with asked:
        cover = _question(choices)
    checkpoint, n_steps = state.current().checkpoint, lab.n_steps(model)
    measure = partial(lab.measure, heavy.model_of(checkpoint))
    seconds, label = heavy.seconds(model, n_steps * TOKENS), "Measure every head"
    stored = next((run for run in lab.STORED if run.settings == checkpoint), None)
    with result:
        place = frame.place(choices, "picture")
        found = trained(
            *(choices, checkpoint, n_steps, measure),
            name="measure",
            label=label,
            seconds=seconds,
            stored=stored,
        )
    if found:
        found = numbered(found)
        with place, cover():
            _summary(choices, found)
        number = _pick(choices, found)
        if number is not None:
            _relation(choices, model.name, number, found[number])
    frame.fold(choices, "counting", TEXTS("question.title"), _counting)
    drawn = partial(_types, choices, model)
    TEXTS.fold(choices, "types", drawn, sentence=lab.EXAMPLE, model=model.name)
    frame.fold(choices, "larger", TEXTS("offer.title"), partial(_offer, model))


def numbered(found: list[lab.Finding]) -> Found:
    """Index findings by the number of their relation: a model may not see every one."""
    numbers = {relation: number for number, relation in enumerate(relations())}
    return {numbers[one.relation]: one for one in found}


def _question(choices: Choices) -> Cover:
    step, share = best_step(relation := relations()[0])
    rule = _step_in_words(step)
    return TEXTS.predict(choices, "step", relation=relation, rule=rule, share=share, lab=lab)


def _counting() -> None:
    texts = {sentence.text for relation in relations() for sentence in relation.sentences}
    TEXTS.markdown("question.statement", count=len(texts))
    st.latex(TEXTS("question.formula"))


def best_step(relation: Relation) -> tuple[int, float]:
    """Return the step between words that finds the most pairs, and the share that it finds."""
    steps = Counter(key - query for s in relation.sentences for query, key in s.pairs)
    step, count = steps.most_common(1)[0]
    return step, count / steps.total()


def _step_in_words(step: int) -> str:
    """
    >>> _step_in_words(1), _step_in_words(-3)
    ('the next word', '3 words back')
    """
    if abs(step) == 1:
        return "the next word" if step > 0 else "the word before"
    return f"{abs(step)} words {'on' if step > 0 else 'back'}"


def _types(choices: Choices, model: AttentionModel) -> None:
    """Draw for each type of head the strongest one on one sentence, beside chance."""
    untrained = memory.untrained_copy(*state.current().checkpoint)
    names = TEXTS.labels("types.pairs")
    rows = [
        {
            "Type": names[typed.kind],
            "From → to": f"{typed.query} → {typed.key}",
            "Strongest head": head_name(*typed.head),
            "Weight": format_number(typed.weight),
            "Random weights": words.UNDEFINED
            if typed.random is None
            else format_number(typed.random),
        }
        for typed in lab.typed_heads(model, untrained)
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, key=choices.key("types-table"))
    TEXTS.caption("types.caption")


def _offer(model: AttentionModel) -> None:
    """Offer the larger models in which such heads were described, where this machine has them."""
    there = [info.name for info in allowed.models() if info.name in PUBLISHED]
    TEXTS.markdown("offer.there" if there else "offer.missing")

    @guarded
    def take(name: str) -> None:
        state.change(model=name, query=-1, key=-1)

    with st.container(horizontal=True):
        for name in there:
            key, here = f"what-heads-learn-take-{name}", name == model.name
            st.button(name, key=key, on_click=take, args=(name,), disabled=here)


def _summary(choices: Choices, found: Found) -> None:
    """Draw all relations as rows: the best head's share of pairs beside its better opponent's."""
    counts = Counter(one.verdict for one in found.values())
    values = {"unsure": counts[lab.UNSURE], "none": counts[lab.NONE], "total": len(found)}
    n_found = words.count(counts[lab.FOUND], "relation")
    TEXTS.markdown("summary.text", found=n_found, **values)
    unseen = len(relations()) - len(found)
    if unseen:
        TEXTS.caption("summary.unseen", count=unseen)
    rows = [
        {
            "Here": MARKS[one.verdict],
            "Kind": one.relation.kind,
            "From → to": one.relation.title,
            "Pairs": len(one.attended.pairs),
            "Best head": head_name(*one.best),
            "It finds": f"{one.score[one.best]:.0%}",
            "Best step": true_minus(f"{one.offset_score:.0%} ({one.offset:+d})"),
            "Random weights": f"{one.random_score:.0%}",
            "Ahead by": _ahead(one, one.best),
        }
        for one in found.values()
    ]
    claims = [
        Claim(
            f"{MARKS[one.verdict][0]} {row['Best head']}: {one.relation.title}",
            one.score[one.best].reshape(1),
            (one.score - one.lead)[one.best].reshape(1),
            [one.verdict],
            [f"{row['Best head']} finds {row['It finds']}, ahead by {row['Ahead by']} points"],
        )
        for one, row in zip(found.values(), rows, strict=True)
    ]
    looks: dict[str, Any] = {"row": 38, "letters": 46 if look.phone() else 90, "dark": look.dark()}
    sides, x_title = ("best head", "better of step and random weights"), "share of pairs found"
    figures.show(
        both_sides(claims, sides, VERDICTS, x_title, **looks),
        key=choices.key("summary"),
        table=pd.DataFrame(rows),
        **TEXTS.figure("summary-figure", n_seeds=lab.N_SEEDS),
    )


def _ahead(one: lab.Finding, head: tuple[int, int]) -> str:
    """Write a head's lead with its interval, in percentage points."""
    lead, low, high = (round(100 * float(ends[head])) for ends in (one.lead, one.low, one.high))
    return true_minus(f"{lead:+d} ({low:+d} to {high:+d})")


def _pick(choices: Choices, found: Found) -> int | None:
    """Draw the menus; return the relation shown, None where the model can see none of its kind."""
    kinds = {kind: kind.capitalize() for kind in KINDS}
    kind = choices.segments("kind", "Kind of relation", kinds, KINDS[0])
    offered = [number for number in _numbers(kind) if number in found]
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
    return [number for number, one in enumerate(relations()) if one.kind == kind]


def _relation(choices: Choices, model: str, number: int, one: lab.Finding) -> None:
    which = f"head-{number}"  # each relation has a head of its own
    layer, head = _chosen(choices, which, one)
    settings = f"{model} · {one.relation.title} · {words.count(len(one.attended.pairs), 'pair')}"
    st.markdown(_verdict_line(one))
    figures.show(
        importance_map(
            one.lead.numpy(),
            f"{one.relation.title}: ahead of both",
            "share of pairs",
            low=one.low.numpy(),
            high=one.high.numpy(),
            selected=(layer, head),
            dark=look.dark(),
        ),
        key=choices.key("map"),
        on_click=lambda place: choices.set(which, f"{int(place[0])}.{int(place[1])}"),
        table=_table(one),
        **TEXTS.figure("map-figure", relation=one.relation, settings=settings),
    )
    drawn = partial(_sentences, one, (layer, head))
    frame.fold(choices, "sentences", TEXTS("sentences.title"), drawn)


def _chosen(choices: Choices, which: str, one: lab.Finding) -> tuple[int, int]:
    chosen = choices.get(which, BEST, _head)
    if chosen == BEST:
        return one.best
    layer, head = (int(number) for number in chosen.split("."))
    layers, heads = one.score.shape
    if layer < layers and head < heads:
        return layer, head
    state.add_problem(
        TEXTS("relation.no_head", layer=head_name(layer, head), layers=layers - 1, heads=heads - 1)
    )
    choices.keep(which, BEST)
    return one.best


def _head(raw: str) -> str:
    if raw != BEST:
        layer, head = raw.split(".")
        views.whole(0, 9_999)(layer), views.whole(0, 9_999)(head)
    return raw


def _verdict_line(one: lab.Finding) -> str:
    name, best = head_name(*one.best), one.best
    values = {"name": name, "one": one, "rule": _step_in_words(one.offset)}
    values |= {"score": one.score[best], "weight": one.weight[best]}
    finds = TEXTS("relation.finds", pairs=len(one.attended.pairs), **values)
    lead = _ahead(one, best)
    if one.verdict != lab.FOUND:
        kind = "unsure" if one.verdict == lab.UNSURE else "none"
        return TEXTS(f"relation.{kind}", finds=finds, lead=lead)
    others = ", ".join(head_name(*place) for place in one.winners if place != best)
    more = f" So {'are' if ',' in others else 'is'} {others}." if others else ""
    return TEXTS("relation.found", finds=finds, head=name, lead=lead) + more


def _table(one: lab.Finding) -> pd.DataFrame:
    layers, heads = one.score.shape
    columns = {"found": one.score, "mean weight": one.weight, "ahead by": one.lead}
    columns |= {"from": one.low, "to": one.high}
    names = [head_name(i, j) for i in range(layers) for j in range(heads)]
    return pd.DataFrame({"Head": names, **{k: v.flatten().numpy() for k, v in columns.items()}})


def _sentences(one: lab.Finding, head: tuple[int, int]) -> None:
    """Draw every sentence with what the head attends to, and its link."""
    n_right = int(one.attended.hits[:, head[0], head[1]].sum())
    name = head_name(*head)
    pairs = len(one.attended.pairs)
    TEXTS.markdown("sentences.opening", name=name, n_right=n_right, pairs=pairs)
    by_sentence: dict[int, list[int]] = {}
    for number, pair in enumerate(one.attended.pairs):
        by_sentence.setdefault(pair.sentence, []).append(number)
    lines = [
        _line(one, one.relation.sentences[sentence], numbers, head)
        for sentence, numbers in by_sentence.items()
    ]
    with st.container(height=420 if len(lines) > 6 else "content"):
        st.markdown("\n".join(lines))
    TEXTS.caption("sentences.caption", name=name)


def _line(one: lab.Finding, sentence: Annotated, numbers: list[int], head: tuple[int, int]) -> str:
    """Write one sentence in markdown: its link, and a mark and words for each of its pairs."""
    parts = []
    for number in numbers:
        pair = one.attended.pairs[number]
        query, key = sentence.words[pair.query], sentence.words[pair.key]
        weight = f"{float(one.attended.weight[number, head[0], head[1]]):.2f}"
        place = int(one.attended.strongest[number, head[0], head[1]])
        if place == pair.key:
            parts.append(f":green[✓ {query} → **{key}** {weight}]")
        else:
            seen = sentence.words[place] if place >= 0 else "nothing in particular"
            parts.append(f":red[✗ {query} → {seen}, not **{key}** {weight}]")
    return f"- [{plain(sentence.text)}]({_address(sentence.text, head)})  \n  " + " · ".join(parts)


def _address(text: str, head: tuple[int, int]) -> str:
    """Return the address in Heads of a sentence and a head: whole words as lines."""
    now = state.current()
    view = replace(views.DEFAULT, model=now.model, device=now.device, dtype=now.dtype, text=text)
    view = replace(view, layer=head[0], head=head[1], words=True, show="lines")
    return f"./?{urlencode(links.to_params(view))}"
