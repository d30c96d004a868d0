"""The page of lab 13."""

import streamlit as st

from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.induction_circuit import numbers as lab
from mha_viz.plots.bars import token_bars
from mha_viz.ui.run import memory
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)

WORD = 3  # of one copy: which one is asked first
_KEPT = 2_000_000  # bytes of one circuit, for the cache: its runs hold z, queries, keys and values


def draw(choices: Choices) -> None:
    """Draw the losses of repeated words, the heads behind them, their weights, and the cut."""
    model = memory.model(lab.MODEL, "cpu", "float32")
    TEXTS.step("task", model=lab.MODEL)
    TEXTS.predict(choices, "loss")
    with frame.row():
        n_words = choices.slide("words", "Words", lab.N_WORDS, 8, width=200)
        seed = choices.seed(width=150)
    settings = (n_words, seed)
    found = memory.cache().get(
        ("lab-induction-circuit", *settings),
        lambda: lab.find_circuit(model, *settings),
        lambda _: _KEPT,
    )
    about = f"{lab.MODEL}, {n_words} words repeated once, seed {seed}"
    _losses(choices, found, about)
    _heads(choices, found)
    _composition(choices, model, found)
    _score_difference(choices, model, found, about)
    _cut(choices, found, settings, about)


def _losses(choices: Choices, found: lab.Circuit, about: str) -> None:
    TEXTS.markdown("losses.text", found=found)
    tokens = found.record.labels[1:]
    places = list(range(1, len(tokens) + 1))
    charts.lines(
        choices.key("losses"),
        {"loss": (places, found.losses.numpy())},
        table={"place": places, "token": tokens, "loss": found.losses.numpy()},
        moments={"second copy": float(found.start + found.n_words)},
        **TEXTS.lines("losses-figure", about=about),
    )


def _heads(choices: Choices, found: lab.Circuit) -> None:
    writer, reader = found.writers[0], found.readers[0]
    names, scores = _names(found), (found.previous[writer], found.induction[reader])
    TEXTS.step("heads", **names, scores=scores)
    n_writers, n_readers = (count(len(heads), "head") for heads in (found.writers, found.readers))
    values = {"n_writers": n_writers, "n_readers": n_readers, "layer": reader[0], "lab": lab}
    TEXTS.markdown("heads.others.text", **names, **values)
    for column, head, what in zip(
        st.columns(2), (writer, reader), ("the token before", "behind the same word"), strict=True
    ):
        title, key = f"{head_name(*head)}: {what}", choices.key(f"pattern-{head[0]}")
        with column:
            charts.head_picture(key, found.record, head, title)


def _names(found: lab.Circuit) -> dict[str, str]:
    return {
        "writer": head_name(*found.writers[0]),
        "reader": head_name(*found.readers[0]),
        "writers": ", ".join(head_name(*head) for head in found.writers),
        "readers": ", ".join(head_name(*head) for head in found.readers),
    }


def _composition(choices: Choices, model: AttentionModel, found: lab.Circuit) -> None:
    writer, reader = found.writers[0], found.readers[0]
    ranked = memory.cache().get(
        ("lab-induction-ranked", writer, reader),
        lambda: lab.ranked(model, writer, reader),
        lambda made: int(made.pairs.memory_usage().sum()),
    )
    TEXTS.step("composition")
    best = "L{:.0f} H{:.0f} → L{:.0f} H{:.0f}".format(*ranked.pairs.iloc[0][:4])
    first = "the highest of all pairs" if ranked.rank == 1 else f"not the highest: {best} is"
    right = 0 if ranked.rank == 1 else 1 if ranked.rank <= 10 else 2
    total = len(ranked.pairs)
    values = {"total": total, "ranked": ranked, "first": first, **_names(found)}
    TEXTS.predict(choices, "top", right=right, **values)
    n, (first_layer, last_layer) = found.record.n_heads, (writer[0], reader[0])
    sizes = (found.record.n_layers, n, found.record.n_layers, n)
    block = ranked.composition.zscore.reshape(sizes)[first_layer, :, last_layer]
    charts.matrix(
        choices.key("zscores"),
        block.numpy(),
        TEXTS("matrix.title", first_layer=first_layer, last_layer=last_layer),
        rows=[head_name(first_layer, head) for head in range(n)],
        columns=[head_name(last_layer, head) for head in range(n)],
        shape="writer × reader",
        marked=[(writer[1], reader[1])],
        cell=52,
    )


@frame.part
def _score_difference(
    choices: Choices, model: AttentionModel, found: lab.Circuit, about: str
) -> None:
    reader = found.readers[0]
    TEXTS.step("why-there", reader=head_name(*reader))
    last, most = found.n_words - 2, max(lab.N_WORDS) - 2
    word = choices.place("word", "Word of a copy", 0, last, WORD, most=most, width=250)
    score = lab.score_difference(model, found, reader, word)
    table = lab.by_key_component(score)
    names, labels = _names(found), found.record.labels
    written = float(table.share[table.component.isin(names["writers"].split(", "))].sum())
    tokens, remainder = (labels[score.query], labels[score.key]), abs(score.remainder)
    values = {"tokens": tokens, "written": written, "remainder": format_number(remainder)}
    TEXTS.markdown("why-there.sum.text", score=score, total=score.sum(), **values, **names)
    shown = table[table.share.abs() > 0]
    shares = {"share of the score": shown.share.to_numpy()}
    figures.show(
        token_bars(shares, shown.component.tolist(), "score", dark=look.dark()),
        key=choices.key("shares"),
        table=shown,
        **TEXTS.figure("shares-figure", about=about, reader=head_name(*reader)),
    )


@frame.part
def _cut(choices: Choices, found: lab.Circuit, settings: tuple[int, int], about: str) -> None:
    names = _names(found)
    table, by_sender = memory.cache().get(
        ("lab-induction-cuts", *settings),
        lambda: (lab.cuts(found), lab.cut_by_sender(found)),
        lambda _: 5_000,
    )
    one, all_readers = table.loss[1], table.loss[2]
    TEXTS.step("cut-path", lab=lab)
    right = int(one < (found.first_loss + found.second_loss) / 2)
    n_readers = count(len(found.readers), "head")
    values = {"found": found, "one": one, "all_readers": all_readers, "n_readers": n_readers}
    TEXTS.predict(choices, "cut", right=right, **names, **values)
    columns = {"cut": "Path cut", "loss": "Loss, nats", "more": "More, nats"}
    digits = st.column_config.NumberColumn(format="%.3g")
    config = {columns["loss"]: digits, columns["more"]: digits}
    st.dataframe(table.rename(columns=columns), hide_index=True, column_config=config)
    TEXTS.caption("cut.heads.text", **names)
    layer = found.writers[0][0]
    heads = [head_name(layer, head) for head in by_sender["head"]]
    figures.show(
        token_bars({"more": by_sender.more.to_numpy()}, heads, "nats more", dark=look.dark()),
        key=choices.key("cuts"),
        table=by_sender,
        **TEXTS.figure("cuts-figure", about=about),
    )
