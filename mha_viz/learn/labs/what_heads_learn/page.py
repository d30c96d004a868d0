"""The page of lab 12: measure all heads, and compare the best of them with their opponents."""

from collections import Counter
from functools import partial

import streamlit as st

from mha_viz.core.amounts import format_number, format_share
from mha_viz.engine.model import AttentionModel
from mha_viz.learn.annotated_sentences import distinct_texts, relations
from mha_viz.learn.frame import layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.labs.what_heads_learn import numbers as lab
from mha_viz.learn.labs.what_heads_learn import relation_page
from mha_viz.learn.labs.what_heads_learn.relation_page import TEXTS, lead_in_words, step_in_words
from mha_viz.plots.both_sides import Claim, both_sides
from mha_viz.ui.heads import picking
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name

PUBLISHED = ("google-bert/bert-base-uncased", "bert-base-uncased", "openai-community/gpt2", "gpt2")
VERDICTS = (lab.FOUND, lab.NONE, lab.UNSURE)
BATCH_TOKENS = 200  # of a batch of sentences, about


def draw(choices: Choices) -> None:
    """Draw the question, all relations at a glance, and one of them with its sentences.

    No fragment: the button in it could not end its own run.
    """
    _, model = picking.bar_and_model()
    relation = relations()[0]
    steps = [key - query for s in relation.sentences for query, key in s.pairs]
    step = lab.best_step(steps)
    values = {"rule": step_in_words(step), "share": steps.count(step) / len(steps)}
    values |= {"relation": relation, "lab": lab}
    cover, _, result = TEXTS.opening(choices, "step", (2, 3), **values)
    checkpoint, n_steps = selection.current().checkpoint, lab.n_steps(model)
    make = partial(lab.measure, heavy.model_of(checkpoint))
    stored = next((run for run in lab.STORED if run.settings == checkpoint), None)
    run = LabRun(make, checkpoint, n_steps, stored, heavy.seconds(model, n_steps * BATCH_TOKENS))
    with result:
        placeholder = layout.placeholder(choices, "picture")
        findings = offer_run(choices, run, name="measure", label="Measure every head")
    if findings:
        with placeholder, cover():
            _summary(choices, findings)
        relation_page.draw(choices, model.name, findings)
    TEXTS.fold(choices, "counting", count=len(distinct_texts()))
    types = partial(_types, choices, model)
    TEXTS.fold(choices, "types", types, sentence=lab.EXAMPLE, model=model.name)
    TEXTS.fold(choices, "larger", partial(_offer, model))


def _types(choices: Choices, model: AttentionModel) -> None:
    """Draw for each type of head the strongest one on one sentence, beside chance."""
    untrained = memory.untrained_copy(*selection.current().checkpoint)
    names = TEXTS.labels("types.pairs")
    rows = []
    for kind, (head, weight, random) in lab.typed_heads(model, untrained).items():
        chance = words.UNDEFINED if random is None else format_number(random)
        pair = " → ".join(lab.TYPES[kind])
        rows.append((names[kind], pair, head_name(*head), format_number(weight), chance))
    table = TEXTS.table("types.columns", rows)
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


def _summary(choices: Choices, findings: list[lab.Finding]) -> None:
    """Draw all relations as rows: the best head's share of pairs beside its better opponent's."""
    counts = Counter(finding.verdict for finding in findings)
    n_found = words.count(counts[lab.FOUND], "relation")
    values = {"unsure": counts[lab.UNSURE], "none": counts[lab.NONE], "total": len(findings)}
    TEXTS.markdown("summary.text", found=n_found, **values)
    if unseen := len(relations()) - len(findings):
        TEXTS.caption("summary.unseen", count=unseen)
    rows, claims, marks = [], [], TEXTS.labels("marks")
    for finding in findings:
        best, relation, mark = finding.best, finding.relation, marks[finding.verdict]
        name, lead = head_name(*best), lead_in_words(finding, best)
        offset = format_number(finding.offset, signed=True)
        scores = finding.score[best], finding.offset_score, finding.random_score
        share, step, random = (format_share(score) for score in scores)
        counted = mark, relation.kind, relation.title, len(finding.attended.pairs)
        rows.append((*counted, name, share, f"{step} ({offset})", random, lead))
        hover = TEXTS("summary.hover", name=name, share=share, lead=lead)
        points = finding.score[best][None], (finding.score - finding.lead)[best][None]
        label = f"{mark[0]} {name}: {relation.title}"
        claims.append(Claim(label, *points, [finding.verdict], [hover]))
    sides = TEXTS("summary.sides.head"), TEXTS("summary.sides.opponent")
    figures.show(
        both_sides(claims, sides, VERDICTS, TEXTS("summary.x_title"), row=38, dark=look.dark()),
        key=choices.key("summary"),
        table=TEXTS.table("summary.columns", rows),
        **TEXTS.figure("summary-figure", n_seeds=lab.N_SEEDS),
    )
