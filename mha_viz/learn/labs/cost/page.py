"""The page of lab 8: costs of attention for any sizes, and for published models."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes, short
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.cost import comparisons_page
from mha_viz.learn.labs.cost.numbers import PUBLISHED, Costs, Sizes, costs, rows
from mha_viz.plots.curves import ticks
from mha_viz.ui.run import memory
from mha_viz.ui.state import state
from mha_viz.ui.widgets.controls import picking
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain

TEXTS = read_texts(__package__)

BYTES = {4: "4 (float32)", 2: "2 (float16, bfloat16)", 1: "1 (int8, float8)", 8: "8 (float64)"}
DEFAULTS = dict(n=512, d_model=768, n_heads=12, n_kv_heads=0, n_layers=12, n_read=0, batch=1)
LONG = tuple(2**i for i in range(6, 18))  # 64 to 131,072 tokens


def draw(choices: Choices) -> None:
    """Draw calculators, caches, measurements, published models, and misconceptions.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    scene = picking.picked()
    model = memory.model(*state.current().checkpoint)
    sizes = _calculator(choices)
    if sizes is not None:
        _heads(choices, sizes)
        _caches(choices, sizes)
        comparisons_page.two_texts(choices, sizes)
        comparisons_page.fused(choices, sizes)
    comparisons_page.timing(choices)
    comparisons_page.against_rnn(choices)
    _models(choices, model, len(scene.record.tokens))
    _misread(choices)


def _calculator(choices: Choices) -> Sizes | None:
    TEXTS.step("calculator")
    sizes = _sizes(choices)
    if sizes is None:
        return None
    cost = costs(sizes)
    text = TEXTS("calculator.width.text", sizes=sizes)
    if sizes.n_kv_heads != sizes.n_heads:
        text += TEXTS("calculator.width.shared", sizes=sizes)
    st.markdown(text)
    for key, table in (("bill", _operations(sizes, cost)), ("memory", _memory(sizes, cost))):
        st.dataframe(table, hide_index=True, width="content", key=choices.key(key))
    even = 2 * sizes.d_model  # 4 n d^2 = 2 n^2 d
    TEXTS.caption("calculator.even.text", even=even)
    return sizes


def _sizes(choices: Choices) -> Sizes | None:
    """Draw the controls of the sizes; None, and an error on screen, where they do not fit."""
    chosen: dict[str, int] = {}
    labels, notes = TEXTS.labels("sizes"), TEXTS.labels("sizes-help")
    with frame.row():
        for name, default in DEFAULTS.items():
            chosen[name] = choices.number(
                name, labels[name], 0, 99_999_999, default, width=125, help=notes.get(name)
            )
        chosen["bytes_each"] = choices.menu("bytes", "Bytes per number", BYTES, 4, width=190)
    try:
        return Sizes(**chosen)
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/calculate:")
        return None


def _operations(sizes: Sizes, cost: Costs) -> pd.DataFrame:
    named = TEXTS.labels("operations")
    counts = [getattr(cost, name) for name in named]
    return pd.DataFrame(
        {
            "Operations": list(named.values()),
            "one head": [short(count / sizes.n_heads) for count in counts],
            "one layer": [short(count) for count in counts],
            f"{sizes.n_layers} layers": [short(sizes.n_layers * count) for count in counts],
        }
    )


def _memory(sizes: Sizes, cost: Costs) -> pd.DataFrame:
    named = TEXTS.labels("memory")
    taken = vars(cost) | {"parameters": cost.parameters * sizes.bytes_each}
    return pd.DataFrame(
        {
            "Memory": list(named.values()),
            "one layer": [of_bytes(taken[name] / sizes.n_layers) for name in named],
            f"{sizes.n_layers} layers": [of_bytes(taken[name]) for name in named],
        }
    )


def _divisors(whole: int, most: int = 64) -> list[int]:
    return [i for i in range(1, min(whole, most) + 1) if whole % i == 0]


def _heads(choices: Choices, sizes: Sizes) -> None:
    TEXTS.step("more-heads")
    TEXTS.predict(choices, "heads", d_model=sizes.d_model)
    counts = _divisors(sizes.d_model)
    made = [costs(replace(sizes, n_heads=h, n_kv_heads=0)) for h in counts]
    charts.lines(
        choices.key("by-heads"),
        {
            "operations": (counts, [c.layer / made[0].layer for c in made]),
            "attention weights": (counts, [c.pattern / made[0].pattern for c in made]),
        },
        more=dict(xaxis=ticks([h for h in counts if h & (h - 1) == 0 or len(counts) < 6])),
        table={
            "heads": counts,
            "d_k": [sizes.d_model // h for h in counts],
            "operations of a layer": [c.layer for c in made],
            "bytes of all attention weights": [c.pattern for c in made],
        },
        **TEXTS.lines("by-heads-figure", sizes=sizes),
    )


def _caches(choices: Choices, sizes: Sizes) -> None:
    TEXTS.step("caches")
    shared = _divisors(sizes.n_heads, 10_000)
    middle = shared[len(shared) // 2]
    chosen = dict.fromkeys((sizes.n_heads, sizes.n_kv_heads, middle, 1))
    caches = {}
    for kv in sorted(chosen, reverse=True):
        name = "multi-head" if kv == sizes.n_heads else "multi-query" if kv == 1 else "grouped"
        caches[f"{name}: {kv}"] = [
            costs(replace(sizes, n=n, n_read=n, n_kv_heads=kv)).cache for n in LONG
        ]
    charts.lines(
        choices.key("caches"),
        {name: (LONG, size) for name, size in caches.items()},
        more=dict(xaxis=ticks(LONG[::2])),
        table={"n": LONG, **caches},
        **TEXTS.lines("caches-figure", sizes=sizes),
    )


def _models(choices: Choices, model: AttentionModel, n_tokens: int) -> None:
    TEXTS.step("models", n_tokens=n_tokens)
    with frame.row():
        n = choices.slide("at", "At n tokens", LONG, 512, width=320)
        size = choices.menu("at_bytes", "Bytes per number ", BYTES, 2, width=190)
    found = rows(n, size, model)
    shares = [
        words.UNDEFINED
        if row.attention is None
        else f"{short(row.attention)} ({row.attention / row.parameters:.0%})"
        for row in found
    ]
    table = pd.DataFrame(found).assign(attention=shares)
    written = table.transform({"parameters": short, "pattern": of_bytes, "cache": of_bytes})
    names = TEXTS.labels("columns")
    names |= {"pattern": f"Weights at {n:,}", "cache": f"KV cache at {n:,}"}
    table = table.assign(**written).rename(columns=names)
    st.dataframe(table, hide_index=True, key=choices.key("models"))
    limits = ", ".join(f"{given.name} {given.n_ctx:,}" for given in PUBLISHED)
    TEXTS.caption("models.caption.text", limits=limits)


def _misread(choices: Choices) -> None:
    TEXTS.step("misread")
    n, d, h, layers = 512, 768, 12, 12
    sizes = {
        "one": Sizes(n, d, 1, 0, layers),
        "many": Sizes(n, d, h, 0, layers),
        "long": Sizes(2 * n, d, h, 0, layers),
        "wide": Sizes(n, d, 2 * h, 0, layers),
        "deep": Sizes(n, d, h, 0, 2 * layers),
    }
    values: dict[str, object] = {"n": n, "twice": 2 * n, "h": h}
    for name, cost in ((name, costs(size)) for name, size in sizes.items()):
        values[f"{name}_pattern"] = of_bytes(cost.pattern)
        for part in ("head", "layer", "scores", "parameters"):
            values[f"{name}_{part}"] = short(getattr(cost, part))
    for belief in ("cheaper", "longer", "layers"):
        with st.expander(TEXTS(f"misread.{belief}.belief")):
            TEXTS.markdown(f"misread.{belief}.text", **values)
