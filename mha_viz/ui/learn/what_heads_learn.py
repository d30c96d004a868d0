"""Lab 12 on screen: pick a model, measure its heads, and read what the best of them looks at."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.labs import what_heads_learn as lab
from mha_viz.labs.annotated_sentences import KINDS, Relation, relations
from mha_viz.plots.importance import importance_map
from mha_viz.ui.learn import frame
from mha_viz.ui.learn.choices import Choices, among
from mha_viz.ui.learn.long_work import trained
from mha_viz.ui.learn.what_heads_learn_sentences import sentences
from mha_viz.ui.session import allowed, heavy, state, views
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.widgets import figures, look, picking, words
from mha_viz.web.labels import head_name

Found = dict[int, lab.Finding]  # by the number of the relation
PUBLISHED = ("google-bert/bert-base-uncased", "bert-base-uncased", "openai-community/gpt2", "gpt2")
MARKS = {lab.FOUND: "✓ found", lab.UNSURE: "? not sure", lab.NONE: "✗ none here"}
TOKENS = 200  # of a batch of sentences, about
BEST = "best"  # the head that is shown where none is chosen


def draw(choices: Choices) -> None:
    """The question, the measurement, all relations, and one of them with its sentences.

    No fragment: the button in it could not end its own run.
    """
    model = picking.picked_model()
    choices.get("kind", KINDS[0], among(KINDS))  # further down; the link keeps them
    for kind in KINDS:
        _relation_of(choices, kind)
    _question(choices)
    _offer(model)
    choices.publish()  # measuring may take a while, and the link is true before it
    checkpoint, n_steps = state.current().checkpoint, lab.n_steps(model)
    found = trained(
        choices,
        checkpoint,
        n_steps,
        partial(lab.measure, heavy.model_of(checkpoint)),
        name="measure",
        label="Measure every head",
        seconds=heavy.seconds(model, n_steps * TOKENS),
    )
    if found:
        found = numbered(found)
        _summary(found)
        number = _pick(choices, found)
        if number is not None:
            _relation(choices, model.name, number, found[number])
    choices.publish()


def numbered(found: list[lab.Finding]) -> Found:
    """What was found, by the number of its relation: a model may not see every one."""
    numbers = {relation: number for number, relation in enumerate(relations())}
    return {numbers[one.relation]: one for one in found}


def _question(choices: Choices) -> None:
    texts = {sentence.text for relation in relations() for sentence in relation.sentences}
    frame.step(
        "Which word belongs to which?",
        f"In {len(texts)} short sentences somebody has marked which words belong together: a verb "
        "and its object, a pronoun and who is meant. A head has **found** a pair if, of all other "
        "words, it gives the right one the most weight. Parts of words are merged; special tokens, "
        "punctuation and the word itself do not compete.",
        r"\text{score} = \frac{1}{|P|} \sum_{(q,\,k) \in P} "
        r"\Big[\, \arg\max_{j \neq q} A_{q,\,j} = k \,\Big]",
    )
    asked = relations()[0]
    step, share = best_step(asked)
    frame.predict(
        choices,
        "step",
        f"“{asked.title}”, as in *the tall woman*. A rule that knows no English always answers "
        f"“{_step_in_words(step)}”. How many of the nouns does it find?",
        ["Hardly any", "About a quarter", "More than half"],
        2,
        f"It finds {share:.0%}. A head with that score may know where words stand, and nothing "
        "of what they mean. So a head counts here only if it beats **the step that finds the "
        f"most** and **the best head of {lab.N_SEEDS} models with random weights**, by more than "
        "the choice of sentences explains.",
    )


def best_step(relation: Relation) -> tuple[int, float]:
    """The step between words that finds the most pairs, and the share that it finds."""
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


def _offer(model: AttentionModel) -> None:
    """A larger model in which such heads were described, where this machine has one."""
    if model.name in PUBLISHED:
        return
    there = [info.name for info in allowed.models() if info.name in PUBLISHED]
    if not there:
        st.caption(
            "Heads for syntax and coreference were described in bert-base-uncased (Clark et al. "
            "2019), which is not on this machine: the menu of models offers to fetch it."
        )
        return

    @guarded
    def take(name: str) -> None:
        state.change(model=name, query=-1, key=-1)

    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Also on this machine, larger and slower:")
        for name in there:
            st.button(name, key=f"what-heads-learn-take-{name}", on_click=take, args=(name,))


# -- all relations ---------------------------------------------------------------------------------


def _summary(found: Found) -> None:
    """All relations at a glance, and how many of them some head finds."""
    verdicts = Counter(one.verdict for one in found.values())
    st.markdown(
        f"**{words.count(verdicts[lab.FOUND], 'relation')} of {len(found)} found**: there a head "
        f"beats both opponents. In {verdicts[lab.UNSURE]} a head is ahead, but these "
        f"sentences are too few to settle it; in {verdicts[lab.NONE]} there is **none here**."
    )
    unseen = len(relations()) - len(found)
    if unseen:
        st.caption(
            f"{unseen} relations are not asked: this model sees no later words, and they lead to "
            "one. Words that see only one other word are not asked either."
        )
    rows = [
        {
            "Here": MARKS[one.verdict],
            "Kind": one.relation.kind,
            "From → to": one.relation.title,
            "Pairs": len(one.looked.pairs),
            "Best head": head_name(*one.best),
            "It finds": _percent(one.score[one.best]),
            "Best step": f"{_percent(one.offset_score)} ({one.offset:+d})".replace("-", "−"),
            "Random weights": _percent(one.random_score),
            "Ahead by": _ahead(one, one.best),
        }
        for one in found.values()
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.caption(
        "“Ahead by” is the score less the better opponent's, in points of a hundred, with its 95 % "
        "interval over sentences. Where the neighbour is asked for, the step itself is the answer: "
        "there a head only has to beat random weights."
    )


def _percent(share: Any) -> str:
    return f"{float(share):.0%}"


def _ahead(one: lab.Finding, head: tuple[int, int]) -> str:
    """A head's lead with its interval, in points of a hundred."""
    lead, low, high = (round(100 * float(ends[head])) for ends in (one.lead, one.low, one.high))
    return f"{lead:+d} ({low:+d} to {high:+d})".replace("-", "−")


# -- one relation ----------------------------------------------------------------------------------


def _pick(choices: Choices, found: Found) -> int | None:
    """The relation that is shown; None where the model can see none of that kind."""
    kinds = {kind: kind.capitalize() for kind in KINDS}
    kind = choices.segments("kind", "Kind of relation", kinds, KINDS[0])
    offered = [number for number in _numbers(kind) if number in found]
    if not offered:
        st.info("This model sees no later words, and relations of this kind lead to one.")
        return None
    if _relation_of(choices, kind) not in offered:
        choices.keep(f"relation-{kind}", offered[0])
    titles = {number: relations()[number].title for number in offered}
    return choices.menu(f"relation-{kind}", "Relation", titles, _numbers(kind)[0])


def _relation_of(choices: Choices, kind: str) -> int:
    """The number of the relation that is chosen of that kind."""
    return choices.get(f"relation-{kind}", _numbers(kind)[0], among(_numbers(kind)))


def _numbers(kind: str) -> list[int]:
    return [number for number, one in enumerate(relations()) if one.kind == kind]


def _relation(choices: Choices, model: str, number: int, one: lab.Finding) -> None:
    """The verdict, all heads as a map, and the sentences of one of them."""
    which = f"head-{number}"  # each relation has a head of its own
    layer, head = _chosen(choices, which, one)
    settings = f"{model} · {one.relation.title} · {words.count(len(one.looked.pairs), 'pair')}"
    st.markdown(_told(one))
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
        name=f"Heads and {one.relation.title}",
        on_click=lambda place: choices.set(which, f"{int(place[0])}.{int(place[1])}"),
        table=_table(one),
        caption=settings,
        how_to_read="Each head's share of pairs found, less what the better opponent finds: above "
        "0 it knows more than a step or random weights. Hover shows the 95 % interval over "
        "sentences. Click a head to read its sentences.",
    )
    sentences(one, (layer, head))


def _chosen(choices: Choices, which: str, one: lab.Finding) -> tuple[int, int]:
    """The head whose sentences are shown, by the name of that choice."""
    chosen = choices.get(which, BEST, _head)
    if chosen == BEST:
        return one.best
    layer, head = (int(number) for number in chosen.split("."))
    layers, heads = one.score.shape
    if layer < layers and head < heads:
        return layer, head
    state.tell(
        f"There is no {head_name(layer, head)}: this model has layers 0–{layers - 1} and heads "
        f"0–{heads - 1}. Showing the best one."
    )
    choices.keep(which, BEST)
    return one.best


def _head(raw: str) -> str:
    if raw != BEST:
        layer, head = raw.split(".")
        views.whole(0, 9_999)(layer), views.whole(0, 9_999)(head)
    return raw


def _told(one: lab.Finding) -> str:
    """What came of one relation, from the numbers."""
    name, best = head_name(*one.best), one.best
    finds = (
        f"{name} finds {_percent(one.score[best])} of {len(one.looked.pairs)} pairs, with a mean "
        f"weight of {float(one.weight[best]):.2f} on the right word. Always answering "
        f"“{_step_in_words(one.offset)}” finds {_percent(one.offset_score)}, the best head of all "
        f"with random weights {_percent(one.random_score)}."
    )
    if one.verdict == lab.FOUND:
        others = ", ".join(head_name(*place) for place in one.winners if place != best)
        more = f" So are {others}." if "," in others else f" So is {others}." if others else ""
        return f"**Found.** {finds} {name} is ahead of both by {_ahead(one, best)} points.{more}"
    if one.verdict == lab.UNSURE:
        return (
            f"**Not sure.** {finds} It is ahead by {_ahead(one, best)} points: with other "
            "sentences of this kind it might not be."
        )
    return f"**There is none here**: no head beats both opponents. {finds}"


def _table(one: lab.Finding) -> pd.DataFrame:
    layers, heads = one.score.shape
    columns = {
        "found": one.score,
        "mean weight": one.weight,
        "ahead by": one.lead,
        "from": one.low,
        "to": one.high,
    }
    names = [head_name(i, j) for i in range(layers) for j in range(heads)]
    return pd.DataFrame({"Head": names, **{k: v.flatten().numpy() for k, v in columns.items()}})
