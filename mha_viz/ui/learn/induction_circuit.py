"""Lab 13 on screen: pick, compute, draw."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from mha_viz.circuits.score_attribution import ScoreAttribution
from mha_viz.core.showing import count
from mha_viz.engine.model import AttentionModel
from mha_viz.labs import induction_circuit as lab
from mha_viz.plots.bars import token_bars
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.session import memory
from mha_viz.ui.widgets import figures, look
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

WORD = 3  # of one copy: which one is asked first
_KEPT = 2_000_000  # bytes of one circuit, for the cache: its runs hold z, queries, keys and values


def draw(choices: Choices) -> None:
    """Two copies of a few words: what they cost, which heads know, who feeds them, and the cut."""
    model = memory.model(lab.MODEL, "cpu", "float32")
    n_words, seed = _task(choices)
    settings = (n_words, seed)
    found = memory.cache().get(
        ("lab-induction-circuit", *settings),
        lambda: lab.find_circuit(model, *settings),
        lambda _: _KEPT,
    )
    about = f"{lab.MODEL}, {n_words} words said twice, seed {seed}"
    _losses(choices, found, about)
    _heads(choices, found)
    _composition(choices, model, found)
    _why_there(choices, model, found, about)
    _cut(choices, found, settings, about)
    choices.publish()


# -- what it does ----------------------------------------------------------------------------------


def _task(choices: Choices) -> tuple[int, int]:
    frame.step(
        "The same words once more",
        "A few words in random order, then all of them again. What comes next in the first copy "
        "nobody can know. In the second, whoever looks **behind the place where the word stood "
        f"before** can copy the answer. The model is the shipped {lab.MODEL}: nothing was trained "
        "for this lab, and all numbers are taken from it as it is.",
    )
    frame.predict(
        choices,
        "loss",
        "How much better will the model guess the words of the second copy?",
        ["Hardly: it was trained on stories, not on this", "It will need a tenth of the nats"],
        1,
        "Stories say things again, too: what was learned from them works on any words. With the "
        "lab’s first settings a word costs 8.3 nats in the first copy, and 0.013 in the second.",
    )
    with frame.row():
        n_words = choices.slide("words", "Words", lab.N_WORDS, 8, width=200)
        seed = choices.seed(width=150)
    return n_words, seed


def _losses(choices: Choices, found: lab.Circuit, about: str) -> None:
    st.markdown(
        f"**{found.first_loss:.3g} nats** a word in the first copy, **{found.second_loss:.2g}** "
        "in the second."
    )
    tokens = found.record.labels[1:]
    places = list(range(1, len(tokens) + 1))
    charts.lines(
        choices.key("losses"),
        {"loss": (places, found.losses.numpy())},
        title="What each word costs",
        x_title="place in the text",
        y_title="−ln p, nats",
        table={"place": places, "token": tokens, "loss": found.losses.numpy()},
        caption=about,
        how_to_read="Loss of each token, given those before it. The second copy begins at the "
        "dotted line; its first word is still news.",
        moments={"second copy": float(found.start + found.n_words)},
    )


# -- who does it -----------------------------------------------------------------------------------


def _heads(choices: Choices, found: lab.Circuit) -> None:
    writer, reader = found.writers[0], found.readers[0]
    frame.step(
        "Two kinds of heads",
        "To copy what came **after** a word’s first place, a head must find a key that says "
        "“before me stood *that* word”. A key knows its own token; what stood before it, somebody "
        f"must have written there. **{head_name(*writer)}** looks at the token before, with "
        f"{found.previous[writer]:.2f} of its weight here. **{head_name(*reader)}** looks behind "
        f"the first occurrence: an induction head, with a score of {found.induction[reader]:.2f}. "
        f"{_others(found)}",
    )
    record = found.record
    for column, head, what in zip(
        st.columns(2), (writer, reader), ("the token before", "behind the same word"), strict=True
    ):
        title = f"{head_name(*head)}: {what}"
        with column:
            charts.head_picture(choices.key(f"pattern-{head[0]}"), record, head, title)


def _others(found: lab.Circuit) -> str:
    """How many more heads there are of both kinds, in a sentence."""
    writers, readers = (
        f"{count(len(heads), 'head')} ({_names(heads)})" for heads in (found.writers, found.readers)
    )
    return (
        f"From a score of {lab.FOUND:g} on, the model has {writers} of the first kind below layer "
        f"{found.readers[0][0]}, and {readers} of the second in it. We call them writers and "
        "readers."
    )


def _names(heads: Sequence[lab.Head]) -> str:
    return ", ".join(head_name(*head) for head in heads)


# -- who reads whom, by weights --------------------------------------------------------------------


def _composition(choices: Choices, model: AttentionModel, found: lab.Circuit) -> None:
    writer, reader = found.writers[0], found.readers[0]
    ranked = memory.cache().get(
        ("lab-induction-ranked", writer, reader),
        lambda: lab.ranked(model, writer, reader),
        lambda made: int(made.pairs.memory_usage().sum()),
    )
    frame.step(
        "Do their weights fit together?",
        "No text is needed for this question: how much of what one head can write is what another "
        "head’s keys are made of? The score is compared with matrices of the same shape and "
        "spectra that know nothing of each other; z counts standard deviations above them.",
        r"\text{K-composition} = \frac{\|W_{OV}^{\,1}\, {W_{QK}^{\,2}}^{\!\top}\|_F}"
        r"{\|W_{OV}^{\,1}\|_F\, \|W_{QK}^{\,2}\|_F}",
    )
    names = f"{head_name(*writer)} and {head_name(*reader)}"
    top = ranked.pairs.iloc[0]
    best = "L{:.0f} H{:.0f} → L{:.0f} H{:.0f}".format(*top[:4])
    first = "the highest of all pairs" if ranked.rank == 1 else f"not the highest: {best} is"
    frame.predict(
        choices,
        "top",
        f"Among all {len(ranked.pairs)} pairs of an earlier and a later head, which place do "
        f"{names} have?",
        ["The first", "Among the first ten", "Somewhere in the middle"],
        0 if ranked.rank == 1 else 1 if ranked.rank <= 10 else 2,
        f"Place {ranked.rank}; it is {first}. Among the {ranked.n_between} pairs of these two "
        f"layers it has place {ranked.rank_between}. Weights say what *could* be read; whether it "
        "matters on a text, the next two steps tell.",
    )
    n, (first_layer, last_layer) = found.record.n_heads, (writer[0], reader[0])
    block = ranked.composition.zscore[
        first_layer * n : (first_layer + 1) * n, last_layer * n : (last_layer + 1) * n
    ]
    charts.matrix(
        choices.key("zscores"),
        block.numpy(),
        f"z of K-composition, layer {first_layer} to layer {last_layer}",
        rows=[head_name(first_layer, head) for head in range(n)],
        columns=[head_name(last_layer, head) for head in range(n)],
        shape="writer × reader",
        marked=[(writer[1], reader[1])],
        cell=52,
    )


# -- why the reader looks there --------------------------------------------------------------------


@frame.part
def _why_there(choices: Choices, model: AttentionModel, found: lab.Circuit, about: str) -> None:
    reader = found.readers[0]
    frame.step(
        f"Why {head_name(*reader)} looks there",
        "The score of a query and a key is a product, and both are sums: of the embedding, the "
        "position, every head and MLP of the layers below. So the score is a sum, too. Here is the "
        "difference that decides: **behind** the word’s first occurrence, less **at** it.",
        r"s = \sum_{a, b} \frac{q_a \cdot k_b}{\sqrt{d_k}}",
    )
    last, most = found.n_words - 2, max(lab.N_WORDS) - 2
    word = choices.place("word", "Word of a copy", 0, last, WORD, most=most, width=250)
    score = lab.why_there(model, found, reader, word)
    table = lab.by_key_component(score)
    st.markdown(_in_words(found, score, table))
    shown = table[table.share.abs() > 0]
    figures.show(
        token_bars(
            {"share of the score": shown.share.to_numpy()},
            shown.component.tolist(),
            "score",
            dark=look.dark(),
        ),
        key=choices.key("shares"),
        name="What the keys are made of",
        table=shown,
        caption=f"{about}, {head_name(*reader)}",
        how_to_read="What each part of the keys adds to the difference of the two scores, with all "
        "parts of the query together. Norms are linear here: their scale is that of this run.",
    )
    choices.publish()


def _in_words(found: lab.Circuit, score: ScoreAttribution, table: pd.DataFrame) -> str:
    labels = found.record.labels
    assert score.versus is not None
    names = {head_name(*head) for head in found.writers}
    written = float(table.share[table.component.isin(names)].sum())
    return (
        f"The second “{labels[score.query]}” gives the token behind its first place, "
        f"“{labels[score.key]}”, a score higher by **{score.value:.3g}** than the place itself. "
        f"Of this **{written:.3g}** come through keys from what the writers wrote there "
        f"({_names(found.writers)}). All parts sum to {score.sum():.5g}; "
        f"rounding leaves {format_number(abs(score.remainder))}."
    )


# -- the path cut ----------------------------------------------------------------------------------


@frame.part
def _cut(choices: Choices, found: lab.Circuit, settings: tuple[int, int], about: str) -> None:
    writer, reader = head_name(*found.writers[0]), head_name(*found.readers[0])
    table, by_sender = memory.cache().get(
        ("lab-induction-cuts", *settings),
        lambda: (lab.cuts(found), lab.cut_by_sender(found)),
        lambda _: 5_000,
    )
    loss = dict(zip(table.cut, table.loss, strict=True))
    one, all_readers = list(loss.values())[1:3]
    frame.step(
        "Cut the path",
        "Now the readers’ keys, and nothing else, are told what a writer says **on the mean over "
        f"{lab.N_OTHERS} other orders of these words**. Everybody else still hears the truth. If "
        "this path carries the circuit, the loss on the second copy goes up.",
    )
    frame.predict(
        choices,
        "cut",
        f"The loss on the second copy is {found.second_loss:.2g}. Only {writer} → {reader} is cut. "
        "What happens?",
        ["It is as high as in the first copy", "It hardly moves"],
        int(one < (found.first_loss + found.second_loss) / 2),
        f"It is {one:.2g}: {count(len(found.readers), 'head')} read what {writer} writes, and "
        f"where one is deaf, the others still copy. With {writer} cut from the keys of all of them "
        f"it is {all_readers:.2g}. That is why switching heads off one by one misses circuits.",
    )
    st.dataframe(
        table.rename(columns={"cut": "Path cut", "loss": "Loss, nats", "more": "More, nats"}),
        hide_index=True,
        column_config={
            name: st.column_config.NumberColumn(format="%.3g")
            for name in ("Loss, nats", "More, nats")
        },
    )
    st.caption(
        f"Best writer: {writer}. Best reader: {reader}. All writers: {_names(found.writers)}. All "
        f"readers: {_names(found.readers)}. The last row cuts the layer’s other heads, all at once."
    )
    heads = [
        head_name(layer, head) for layer, head in by_sender[["layer", "head"]].to_numpy().tolist()
    ]
    figures.show(
        token_bars({"more": by_sender.more.to_numpy()}, heads, "nats more", dark=look.dark()),
        key=choices.key("cuts"),
        name="One sender at a time cut from all readers’ keys",
        table=by_sender,
        caption=about,
        how_to_read="How much the loss on the second copy rises where the keys of all readers hear "
        "one head of the writers’ layer from other texts. Below 0, the cut helps.",
    )
