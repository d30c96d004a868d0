"""The page of lab 13: an induction circuit from the task over heads and edges to its test."""

from functools import partial

import numpy as np
import streamlit as st

from mha_viz.circuits.tasks.make_task import INDUCTION
from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.induction_circuit import numbers as lab
from mha_viz.plots.bars import signed_rows, token_bars
from mha_viz.plots.head_values import importance_map
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages.notices import number_columns
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)

WORD = 3  # of one copy: which one is asked first
_CIRCUIT_BYTES = (
    2_000_000  # bytes of one circuit, for the cache: its runs hold z, queries, keys and values
)
_EXPLAIN_SECONDS = 60.0  # that all of `explain` takes, about


def draw(choices: Choices) -> None:
    """Draw the way from the task over heads, scores and edges to the test on unseen pairs."""
    model = memory.model(*lab.CHECKPOINT)
    cover, question, figure = TEXTS.opening(choices, "loss", (2, 3), model=lab.MODEL)
    with question, layout.row():
        n_words = choices.slide("words", "Words", lab.N_WORDS, 8, width=200)
        seed = choices.seed(width=150)
    settings = (n_words, seed)
    circuit = memory.cache().get(
        ("lab-induction-circuit", *settings),
        lambda: lab.find_circuit(model, *settings),
        lambda _: _CIRCUIT_BYTES,
    )
    about = f"{lab.MODEL}, {n_words} words repeated once, seed {seed}"
    with figure, cover():
        _losses(choices, circuit, about)
    with question:
        make = partial(lab.explain, heavy.model_of(lab.CHECKPOINT))
        run = LabRun(make, lab.CHECKPOINT, lab.N_STEPS, lab.STORED[0], _EXPLAIN_SECONDS)
        task = offer_run(choices, run, name="explain", label="Find the circuit")
    if task:
        look.beside([1, 2], partial(_task, task), partial(_heads, choices, task))
    names = _names(circuit)
    folds = {
        "patterns": partial(_patterns, choices, circuit),
        "score": partial(_score_difference, choices, model, circuit, about),
        "composition": partial(_composition, choices, model, circuit),
        "cut": partial(_cut, choices, circuit, settings),
        "senders": partial(_senders, choices, circuit, settings, about),
    }

    TEXTS.step("why-there", writer=names["writer"], reader=names["reader"])
    with st.container(gap="xxsmall"):
        for name in ("patterns", "score", "composition"):
            TEXTS.fold(choices, name, folds[name], reader=names["reader"])
    if task:
        look.beside(2, partial(_edges, choices, task), partial(_test, choices, task))
    with st.container(gap="xxsmall"):
        TEXTS.fold(choices, "cut", folds["cut"], lab=lab)
        TEXTS.fold(choices, "senders", folds["senders"])


def _task(task: lab.Findings) -> None:
    TEXTS.step("task", accuracy=task.accuracy)
    _link("task", "test")


def _link(step: str, why: str, **params: object) -> None:
    """Draw a link to the view of the Why page where the step can be gone further."""
    pages = session().pages
    if "why" in pages:
        values = {"model": lab.MODEL, "why": why, "task": INDUCTION, **params}
        query = {name: str(value) for name, value in values.items()}
        label, icon = TEXTS(f"links.{step}"), ":material/arrow_forward:"
        st.page_link(pages["why"], label=label, icon=icon, query_params=query)


def _losses(choices: Choices, circuit: lab.Circuit, about: str) -> None:
    TEXTS.markdown("losses.text", found=circuit)
    tokens = circuit.record.labels[1:]
    positions = list(range(1, len(tokens) + 1))
    charts.lines(
        choices.key("losses"),
        {"loss": (positions, circuit.losses.numpy())},
        table={"place": positions, "token": tokens, "loss": circuit.losses.numpy()},
        moments={"second copy": float(circuit.start + circuit.n_words)},
        **TEXTS.lines("losses-figure", about=about),
    )


def _heads(choices: Choices, task: lab.Findings) -> None:
    writes, at = task.writes, [component.kind == "head" for component in task.writes.components]
    low, high = (end[at].reshape(writes.heads.shape).numpy() for end in writes.interval[1:])
    best = np.unravel_index(int(writes.heads.argmax()), writes.heads.shape)
    strongest = head_name(*map(int, best)), float(writes.heads.max()), writes.value
    heads = ", ".join(head_name(*head) for head in task.tested.heads)
    TEXTS.step("heads", strongest=strongest, heads=heads)
    figures.show(
        importance_map(writes.heads.numpy(), "", "logits", interval=(low, high), dark=look.dark()),
        key=choices.key("writes"),
        table=writes.table().drop(columns=["layer", "head"]),  # components have names
        **TEXTS.figure("writes-figure"),
    )
    _link("heads", "prediction", averaged=1)


def _patterns(choices: Choices, circuit: lab.Circuit) -> None:
    writer, reader = circuit.writers[0], circuit.readers[0]
    scores = circuit.previous[writer], circuit.induction[reader]
    n_writers, n_readers = count(len(circuit.writers), "head"), count(len(circuit.readers), "head")
    values = {"n_writers": n_writers, "n_readers": n_readers, "layer": reader[0], "lab": lab}
    TEXTS.markdown("patterns.text", **_names(circuit), **values, scores=scores)
    for column, head, attends_to in zip(
        st.columns(2), (writer, reader), ("the token before", "behind the same word"), strict=True
    ):
        title, key = f"{head_name(*head)}: {attends_to}", choices.key(f"pattern-{head[0]}")
        with column:
            charts.head_picture(key, circuit.record, head, title, 420)


def _names(circuit: lab.Circuit) -> dict[str, str]:
    return {
        "writer": head_name(*circuit.writers[0]),
        "reader": head_name(*circuit.readers[0]),
        "writers": ", ".join(head_name(*head) for head in circuit.writers),
        "readers": ", ".join(head_name(*head) for head in circuit.readers),
    }


def _composition(choices: Choices, model: AttentionModel, circuit: lab.Circuit) -> None:
    writer, reader = circuit.writers[0], circuit.readers[0]
    make = partial(lab.rank_pair, model, writer, reader)
    ranked = memory.cache().get(("lab-induction-ranked", writer, reader), make, lambda _: 20_000)
    right = 0 if ranked.rank == 1 else 1 if ranked.rank <= 10 else 2
    cover = TEXTS.predict(choices, "top", right=right, ranked=ranked, **_names(circuit))
    n, (first_layer, last_layer) = circuit.record.n_heads, (writer[0], reader[0])
    sizes = (circuit.record.n_layers, n, circuit.record.n_layers, n)
    block = ranked.composition.zscore.reshape(sizes)[first_layer, :, last_layer]
    with cover():
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
    _link("composition", "connections")


def _score_difference(
    choices: Choices, model: AttentionModel, circuit: lab.Circuit, about: str
) -> None:
    reader = circuit.readers[0]
    words, most = range(circuit.n_words - 1), max(lab.N_WORDS) - 2
    word = choices.position("word", "Word of a copy", words, WORD, most=most, width=250)
    score = lab.score_difference(model, circuit, reader, word)
    table = lab.by_key_component(score)
    names, labels = _names(circuit), circuit.record.labels
    written = float(table.share[table.component.isin(names["writers"].split(", "))].sum())
    tokens, remainder = (labels[score.query], labels[score.key]), abs(score.remainder)
    values = {"tokens": tokens, "written": written, "remainder": format_number(remainder)}
    TEXTS.markdown("score.text", score=score, total=score.sum(), **values, **names)
    shown = table[table.share.abs() > 0]
    shares = {"share of the score": shown.share.to_numpy()}
    figures.show(
        token_bars(shares, shown.component.tolist(), "score", dark=look.dark()),
        key=choices.key("shares"),
        table=shown,
        **TEXTS.figure("shares-figure", about=about, reader=head_name(*reader)),
    )
    cell = dict(layer=reader[0], head=reader[1], query=score.query, key=score.key)
    _link("score", "score", text=circuit.text, versus_key=score.versus, **cell)


def _edges(choices: Choices, task: lab.Findings) -> None:
    """Draw how much of the behaviour circuits of growing sizes carry on held-out pairs."""
    curve = task.curve
    enough = curve[curve.edges == (task.size or curve.edges.iloc[-1])].iloc[0]
    TEXTS.step("edges", n=int(enough.edges), n_edges=task.n_edges, row=enough)
    lines = {name: (curve.edges, curve[name]) for name in ("faithfulness", "complement", "random")}
    charts.lines(
        choices.key("edges"),
        {TEXTS(f"edges.{name}"): points for name, points in lines.items()},
        table={str(name): column for name, column in curve.items()},
        **TEXTS.lines("edges-figure"),
    )
    _link("edges", "connections", connections="task")


def _test(choices: Choices, task: lab.Findings) -> None:
    """Draw what the chosen heads carry of the behaviour on held-out pairs, beside chance."""
    tested, table = task.tested, task.tested.table()
    held_out, chosen = (half.share(half.alone) for half in (tested.held_out, tested.chosen_on))
    n, beside = len(tested.heads), tested.beside_random
    TEXTS.step("test", n=n, held_out=held_out, chosen=chosen, beside=beside)
    names = [TEXTS(f"bars.{i}") for i in range(len(table))]
    shares = (100 * table["share"]).to_numpy(dtype=np.float64)
    figures.show(
        signed_rows(names, shares, "% of the behaviour", dark=look.dark()),
        key=choices.key("test"),
        table=table,
        **TEXTS.figure("test-figure"),
    )
    heads = ",".join(f"{layer}.{head}" for layer, head in tested.heads)
    _link("test", "test", tested=heads)


def _cut(choices: Choices, circuit: lab.Circuit, settings: tuple[int, int]) -> None:
    names = _names(circuit)
    make = partial(lab.cuts, circuit)
    table = memory.cache().get(("lab-induction-cuts", *settings), make, lambda _: 5_000)
    one_cut, all_readers = table.loss[1], table.loss[2]
    right = int(one_cut < (circuit.first_loss + circuit.second_loss) / 2)
    n_readers = count(len(circuit.readers), "head")
    values = {"found": circuit, "one": one_cut, "all_readers": all_readers, "n_readers": n_readers}
    cover = TEXTS.predict(choices, "one-cut", right=right, **names, **values)
    columns = {"cut": "Path cut", "loss": "Loss, nats", "more": "More, nats"}
    table = table.rename(columns=columns)
    with cover():
        st.dataframe(table, hide_index=True, column_config=number_columns(table))
        TEXTS.caption("cut.heads", **names)


def _senders(choices: Choices, circuit: lab.Circuit, settings: tuple[int, int], about: str) -> None:
    """Draw how much loss each head of the writers' layer causes where all readers miss it."""
    make = partial(lab.cut_by_sender, circuit)
    table = memory.cache().get(("lab-induction-senders", *settings), make, lambda _: 5_000)
    figures.show(
        token_bars(
            {"more": table.more.to_numpy()},
            [head_name(circuit.writers[0][0], head) for head in table["head"]],
            "nats more",
            dark=look.dark(),
        ),
        key=choices.key("senders-figure"),
        table=table,
        **TEXTS.figure("senders-figure", about=about),
    )
