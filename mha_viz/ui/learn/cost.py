"""Lab 8 on screen: what attention costs, calculated for any sizes, and for models of today."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes, short
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.labs.cost import PUBLISHED, Costs, Sizes, costs, rows
from mha_viz.plots.curves import ticks
from mha_viz.ui.learn import charts, cost_compared, cost_measured, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.session import memory, state
from mha_viz.ui.widgets import picking, words
from mha_viz.ui.widgets.messages import plain

BYTES = {4: "4 (float32)", 2: "2 (float16, bfloat16)", 1: "1 (int8, float8)", 8: "8 (float64)"}
LONG = tuple(2**i for i in range(6, 18))  # 64 to 131,072 tokens


def draw(choices: Choices) -> None:
    """Calculators, caches, what this machine measures, models of today, and what people get wrong.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    scene = picking.picked()
    view = state.current()
    model = memory.model(view.model, view.device, view.dtype)
    sizes = _calculator(choices)
    if sizes is not None:
        _heads(choices, sizes)
        _caches(choices, sizes)
        cost_compared.two_texts(choices, sizes)
        cost_compared.fused(choices, sizes)
    cost_measured.draw(choices)
    cost_compared.against_rnn(choices)
    _models(choices, model, len(scene.record.tokens))
    _misread(choices)
    choices.publish()


# -- calculators -----------------------------------------------------------------------------------


def _calculator(choices: Choices) -> Sizes | None:
    frame.step(
        "What one layer costs",
        "With m = d_model and d_k = m / h, on n tokens. We count multiplications whose results are "
        "added up; biases, the mask and softmax are left out.",
        r"\begin{aligned} C_{\text{head}} &= \underbrace{4\, n\, m\, d_k}_{W_Q, W_K, W_V, W_O} + "
        r"\underbrace{2\, n^2 d_k}_{Q K^\top,\; A V} \\ &= O(n^2 d_k + n\, m\, d_k) \\ "
        r"C_{\text{layer}} &= h\, C_{\text{head}} = 4\, n\, m^2 + 2\, n^2 m \\ "
        r"M_{\text{layer}} &= O(h\, n^2 + n\, m) \end{aligned}",
    )
    sizes = _sizes(choices)
    if sizes is None:
        return None
    cost = costs(sizes)
    shared = sizes.n_kv_heads != sizes.n_heads
    st.markdown(
        f"d_k = {sizes.d_model} / {sizes.n_heads} = **{sizes.d_head}**."
        + (
            f" {sizes.n_heads} heads share {sizes.n_kv_heads} key and value heads."
            if shared
            else ""
        )
    )
    st.dataframe(
        _operations(sizes, cost), hide_index=True, width="content", key=choices.key("bill")
    )
    st.dataframe(_memory(sizes, cost), hide_index=True, width="content", key=choices.key("memory"))
    even = 2 * sizes.d_model  # 4 n m^2 = 2 n^2 m
    st.caption(
        f"In self-attention without shared key heads both parts are equal at n = 2 m = {even:,} "
        "tokens. In shorter texts the projections cost more, in longer ones the pairs of tokens."
    )
    return sizes


def _sizes(choices: Choices) -> Sizes | None:
    """The sizes that are asked for, or what is wrong with them."""
    asked: dict[str, int] = {}
    notes = {"n_kv_heads": "0: as many as heads.", "n_read": "0: the same n (self-attention)."}
    with frame.row():
        for name, label, default in (
            ("n", "Tokens n", 512),
            ("d_model", "d_model", 768),
            ("n_heads", "Heads h", 12),
            ("n_kv_heads", "Key heads", 0),
            ("n_layers", "Layers", 12),
            ("n_read", "Tokens read", 0),
            ("batch", "Texts at once", 1),
        ):
            note = notes.get(name)
            asked[name] = choices.number(name, label, 0, 99_999_999, default, width=125, help=note)
        asked["bytes_each"] = choices.menu("bytes", "Bytes per number", BYTES, 4, width=190)
    try:
        return Sizes(**asked)
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/calculate:")
        return None


def _operations(sizes: Sizes, cost: Costs) -> pd.DataFrame:
    parts = (
        ("W_Q, W_K, W_V, W_O", cost.projections),
        ("Q Kᵀ", cost.scores),
        ("weights × V", cost.mixing),
        ("together", cost.layer),
    )
    return pd.DataFrame(
        {
            "Operations": [name for name, _ in parts],
            "one head": [short(count / sizes.n_heads) for _, count in parts],
            "one layer": [short(count) for _, count in parts],
            f"{sizes.n_layers} layers": [short(sizes.n_layers * count) for _, count in parts],
        }
    )


def _memory(sizes: Sizes, cost: Costs) -> pd.DataFrame:
    parts = (
        ("attention weights, all kept", cost.pattern),
        ("sums of their rows, if fused", cost.row_sums),
        ("Q, K, V and z", cost.activations),
        ("key-value cache", cost.cache),
        ("the four matrices", cost.parameters * sizes.bytes_each),
    )
    return pd.DataFrame(
        {
            "Memory": [name for name, _ in parts],
            "one layer": [of_bytes(count / sizes.n_layers) for _, count in parts],
            f"{sizes.n_layers} layers": [of_bytes(count) for _, count in parts],
        }
    )


def _divisors(whole: int, most: int = 64) -> list[int]:
    return [i for i in range(1, min(whole, most) + 1) if whole % i == 0]


def _heads(choices: Choices, sizes: Sizes) -> None:
    frame.step(
        "More heads at the same width",
        "h heads of width m / h: every product has as many terms, only cut differently. What does "
        "grow is the number of attention weights, and with it the memory for them and the work of "
        "softmax: h n² of them.",
    )
    frame.predict(
        choices,
        "heads",
        f"d_model stays {sizes.d_model:,}. One head, or as many as you like: "
        "which takes more products of numbers?",
        ["One head", "Many heads", "The same"],
        2,
        "In h · 2 n² (m / h) the h cancels. So “multi-head attention costs as much as one head of "
        "full width” is right for the products, and wrong for memory and softmax.",
    )
    counts = _divisors(sizes.d_model)
    made = [costs(replace(sizes, n_heads=h, n_kv_heads=0)) for h in counts]
    charts.lines(
        choices.key("by-heads"),
        {
            "operations": (counts, [c.layer / made[0].layer for c in made]),
            "attention weights": (counts, [c.pattern / made[0].pattern for c in made]),
        },
        title="Against one head of full width",
        x_title="heads h",
        y_title="times as much",
        x_axis="log",
        y_axis="log",
        height=300,
        more=dict(xaxis=ticks([h for h in counts if h & (h - 1) == 0 or len(counts) < 6])),
        name="Cost by number of heads",
        table={
            "heads": counts,
            "d_k": [sizes.d_model // h for h in counts],
            "operations of a layer": [c.layer for c in made],
            "bytes of all attention weights": [c.pattern for c in made],
        },
        caption=f"Calculated: n = {sizes.n}, d_model = {sizes.d_model}, no shared key heads",
        how_to_read="A level line means that the number of heads does not matter. Only numbers up "
        "to 64 that divide d_model are drawn.",
    )


def _caches(choices: Choices, sizes: Sizes) -> None:
    frame.step(
        "Keys and values that wait",
        "A model that generates text keeps the keys and values of all tokens so far. Multi-query "
        "attention shares one key and value head among all queries, grouped-query attention a few: "
        "the cache shrinks by as much, the n² products do not.",
        r"M_{\text{cache}} = 2 \cdot \text{layers} \cdot n \cdot h_{kv} \cdot d_k \cdot "
        r"\text{bytes}",
    )
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
        title="Key-value cache",
        x_title="tokens n",
        y_title="bytes",
        x_axis="log",
        y_axis="log",
        height=320,
        more=dict(xaxis=ticks(LONG[::2])),
        table={"n": LONG, **caches},
        caption=f"Calculated: d_model = {sizes.d_model}, {sizes.n_heads} heads, {sizes.n_layers} "
        f"layers, {sizes.bytes_each} bytes a number",
        how_to_read="One line for each number of key and value heads. They run side by side: "
        "sharing saves the same factor at every length.",
    )


# -- models of today -------------------------------------------------------------------------------


def _models(choices: Choices, model: AttentionModel, n_tokens: int) -> None:
    frame.step(
        "Typical models",
        f"Each number is computed from the sizes that were published; the last row is the loaded "
        f"model, counted from its weights. Your sentence has {n_tokens} tokens here.",
    )
    with frame.row():
        n = choices.slide("at", "At n tokens", LONG, 512, width=320)
        size = choices.menu("at_bytes", "Bytes per number ", BYTES, 2, width=190)
    found = rows(n, size, model)
    st.dataframe(
        pd.DataFrame(
            {
                "Model": [row.name for row in found],
                "Layers": [row.n_layers for row in found],
                "d_model": [row.d_model for row in found],
                "Heads": [row.n_heads for row in found],
                "d_k": [row.d_head for row in found],
                "In attention": [
                    words.UNDEFINED
                    if row.attention is None
                    else f"{short(row.attention)} ({row.attention / row.parameters:.0%})"
                    for row in found
                ],
                "Parameters": [short(row.parameters) for row in found],
                f"Weights at {n:,}": [of_bytes(row.pattern) for row in found],
                f"KV cache at {n:,}": [of_bytes(row.cache) for row in found],
                "Sizes from": [row.source for row in found],
            }
        ),
        hide_index=True,
        key=choices.key("models"),
    )
    limits = ", ".join(f"{given.name} {given.n_ctx:,}" for given in PUBLISHED)
    st.caption(
        "Weights: all attention weights, if those of every layer and head were kept. The KV cache "
        "is what a causal model would keep; BERT has no use for one. GPT-3 makes every other layer "
        "look at a band of tokens only: its weights are counted here as if it did not. Longest "
        f"texts: {limits}."
    )


# -- what people get wrong -------------------------------------------------------------------------


def _misread(choices: Choices) -> None:
    frame.step("What people get wrong", "Each answer is calculated for BERT-Base at 512 tokens.")
    n, m, h, layers = 512, 768, 12, 12
    one, many, long = (costs(Sizes(*s, 0, layers)) for s in ((n, m, 1), (n, m, h), (2 * n, m, h)))
    more_heads, more_layers = (costs(Sizes(n, m, *s)) for s in ((2 * h, 0, layers), (h, 0, 24)))
    with st.expander("“Multi-head attention is cheaper than one big head”"):
        st.markdown(
            f"It is not. A layer takes {short(one.layer)} operations with 1 head and "
            f"{short(many.layer)} with {h}: narrower heads, but more of them. All attention "
            f"weights take {of_bytes(one.pattern)} with 1 head and {of_bytes(many.pattern)} with "
            f"{h}. One head of {h}, by itself, takes {short(many.head)}: a {h}th of the layer."
        )
    with st.expander("“With more heads the model can read longer texts”"):
        st.markdown(
            f"No. From {n} to {2 * n} tokens Q Kᵀ grows from {short(many.scores)} to "
            f"{short(long.scores)} operations and the attention weights from "
            f"{of_bytes(many.pattern)} to {of_bytes(long.pattern)}: four times as much, with any "
            "number of heads. More heads add to the weights, they do not save any. How long a text "
            "may be is set by the positions a model knows and by memory."
        )
    with st.expander("“Heads are layers”"):
        st.markdown(
            f"Heads of one layer all read the same tokens, side by side, and their outputs are "
            f"added. Layers stand one after the other: each reads what the one before has written. "
            f"Twice as many heads leave the parameters of attention at "
            f"{short(more_heads.parameters)} (they were {short(many.parameters)}); twice as many "
            f"layers make {short(more_layers.parameters)} of them."
        )
