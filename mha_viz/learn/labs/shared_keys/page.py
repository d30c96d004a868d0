"""The page of lab 14: heads with common keys side by side, what sharing saves, and an RNN."""

from dataclasses import replace
from functools import partial

import streamlit as st

from mha_viz.interventions.importance import t_interval
from mha_viz.learn.annotated_sentences import distinct_texts
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.cost.numbers import LENGTHS, costs, divisors
from mha_viz.learn.labs.cost.page import sizes_of
from mha_viz.learn.labs.shared_keys import numbers as lab
from mha_viz.learn.labs.shared_keys import recurrence
from mha_viz.learn.labs.shared_keys.recurrence import KERNEL, KINDS, WIDTH, Reached
from mha_viz.plots.curves import ticks
from mha_viz.ui.run import heavy, memory
from mha_viz.web.labels import head_name

TEXTS = read_texts(__package__)

NAMES = {"attention": "attention", "recurrent": "RNN", "convolution": "convolution"}
SENTENCES = TEXTS.labels("sentences")
# Llama 2 with 70 billion parameters (Touvron et al. 2023), in half precision
LLAMA_2 = dict(d_model=8192, n_heads=64, n_kv_heads=8, n_layers=80)
CHECKPOINT = (lab.MODEL, "cpu", "float32")


def draw(choices: Choices) -> None:
    """Draw the distances of heads, the patterns of four, the caches, and the fold on an RNN.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    cover, question, figure = TEXTS.opening(choices, "alike")
    with question:
        make = partial(lab.compare_groups, heavy.model_of(CHECKPOINT))
        stored = lab.STORED[0]
        run = LabRun(make, stored.settings, len(distinct_texts()), stored)
        groups = offer_run(choices, run, label="Measure")
        assert groups is not None  # there are no settings, so the stored run is always there
        ways, counts = groups.random.shape[1], groups.as_close
        with cover():
            TEXTS.step("found", model=lab.MODEL, ways=ways, as_close=counts, found=groups)
    with figure, cover():
        _distances(choices, groups)
    _four(choices, groups)
    _caches(choices)
    TEXTS.fold(choices, "against-rnn", partial(_against_rnn, choices))


def _distances(choices: Choices, groups: lab.Groups) -> None:
    layers = list(range(len(groups.apart)))
    within, between = (t_interval(part) for part in (groups.within, groups.between))
    random = groups.random.quantile(groups.random.new_tensor([0.025, 0.5, 0.975]), dim=1)
    lines = {
        TEXTS("lines.within"): (within[0], (within[1], within[2])),
        TEXTS("lines.between"): (between[0], (between[1], between[2])),
        TEXTS("lines.random"): (random[1], (random[0], random[2])),
    }
    columns = {
        f"{name}{end}": values.numpy()
        for name, (line, (low, high)) in lines.items()
        for end, values in (("", line), (", low", low), (", high", high))
    }
    charts.lines(
        choices.key("distances"),
        {name: (layers, line.numpy()) for name, (line, _) in lines.items()},
        bands={name: (low.numpy(), high.numpy()) for name, (_, (low, high)) in lines.items()},
        more=dict(xaxis=ticks(layers)),
        table={"layer": layers, **columns},
        **TEXTS.lines("distances-figure", n=len(groups.within), model=lab.MODEL),
    )


@layout.part
def _four(choices: Choices, groups: lab.Groups) -> None:
    """Draw two heads of one group beside two heads of different groups."""
    st.header(TEXTS("pairs.title"), anchor=False)
    with layout.row():
        layers = {i: f"Layer {i}" for i in range(len(groups.apart))}
        layer = choices.segments("of_layer", "Layer", layers, 0)
        text = choices.menu("sentence", "Sentence", SENTENCES, "dog", width=420)
    record = memory.model(*CHECKPOINT).trace(SENTENCES[text])
    pairs = groups.extreme_pairs(layer)
    for column, kind, pair in zip(st.columns(2), ("same", "different"), pairs, strict=True):
        with column:
            TEXTS.markdown(f"pairs.{kind}", apart=float(groups.apart[layer][pair]))
            for half, head in zip(st.columns(2), pair, strict=True):
                title = f"{head_name(layer, head)}, keys {head // groups.size}"
                names, numbers = record.labels, list(map(str, range(len(record.labels))))
                with half:
                    pattern, key = record[layer, head], choices.key(f"{kind}-{head}")
                    charts.weights(key, pattern, title, names, numbers, cell=14, shape="")
    TEXTS.caption("pairs.caption")


@layout.part
def _caches(choices: Choices) -> None:
    TEXTS.step("caches")
    sizes = sizes_of(choices, LLAMA_2, n_bytes=2)
    if sizes is None:
        return
    shared = divisors(sizes.n_heads)
    chosen = {sizes.n_heads, sizes.n_kv_heads, shared[len(shared) // 2], 1}
    caches = {}
    for kv in sorted(chosen, reverse=True):
        name = "multi-head" if kv == sizes.n_heads else "multi-query" if kv == 1 else "grouped"
        caches[f"{name}: {kv}"] = [
            costs(replace(sizes, n=n, n_read=n, n_kv_heads=kv)).cache for n in LENGTHS
        ]
    charts.lines(
        choices.key("caches"),
        {name: (LENGTHS, size) for name, size in caches.items()},
        more=dict(xaxis=ticks(LENGTHS[::2])),
        table={"n": LENGTHS, **caches},
        **TEXTS.lines("caches-figure", sizes=sizes),
    )


@layout.part
def _against_rnn(choices: Choices) -> None:
    """Draw path lengths and operations, as in table 1 of Vaswani et al."""
    cover = TEXTS.predict(choices, "path")
    width = choices.slide("rnn_width", "Width d", (4, 16, 64), WIDTH, width=200)
    by_kind, lengths = _reached(width), recurrence.LENGTHS
    table: dict[str, list[int]] = {"n": list(lengths)}
    for kind, rows in by_kind.items():
        for part in ("path", "in turn", "products"):
            values = [getattr(row, part.replace(" ", "_")) for row in rows]
            table[f"{part}, {NAMES[kind]}"] = values
        table[f"formula, {NAMES[kind]}"] = [recurrence.formula(kind, n, width) for n in lengths]
    with cover():
        charts.lines(
            choices.key("paths"),
            {NAMES[kind]: (lengths, [r.path for r in by_kind[kind]]) for kind in KINDS},
            more=dict(xaxis=ticks(lengths)),
            table=table,
            **TEXTS.lines("paths-figure", width=width, kernel=KERNEL),
        )
        most = by_kind["attention"][-1].products / by_kind["recurrent"][-1].products
        last = {kind: rows[-1] for kind, rows in by_kind.items()}
        TEXTS.markdown("against-rnn.found", n=lengths[-1], width=width, most=most, **last)


@st.cache_data(max_entries=3, show_spinner="Walking through the graphs …")
def _reached(width: int) -> dict[str, list[Reached]]:
    return {
        kind: [recurrence.measure_path(kind, n, width) for n in recurrence.LENGTHS]
        for kind in KINDS
    }
