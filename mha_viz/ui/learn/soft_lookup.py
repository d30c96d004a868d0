"""Lab 1 on screen: pick, compute, draw."""

from __future__ import annotations

import streamlit as st
import torch
from torch import Tensor

from mha_viz.labs.soft_lookup import WORDS, Lookup, example, lookup, score_spread
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.motion import play
from mha_viz.web.theme import format_number

SIZES = (3, 4, 5, 6, 7, 8)
WIDTHS = (1, 2, 3, 4, 6, 8)
# Each about a fifth colder than the one before: to weights, only the ratio matters.
COOLING = (
    5.0,
    4.0,
    3.0,
    2.5,
    2.0,
    1.6,
    1.25,
    1.0,
    0.8,
    0.65,
    0.5,
    0.4,
    0.3,
    0.25,
    0.2,
    0.15,
    0.1,
    0.05,
)
ASPECTS = {
    "variance": ("Variance of the scores", "variance"),
    "confidence": ("Largest weight of a row", "mean largest weight"),
    "gradient": ("How much gradient softmax lets through", "mean of Σ a (1 − a)"),
}


@frame.part
def draw(choices: Choices) -> None:
    """The lookup with every number, the square root, the temperature."""
    _lookup(choices)
    _square_root(choices)
    choices.publish()


def _lookup(choices: Choices) -> None:
    frame.step(
        "A lookup that takes a little of everything",
        "A dictionary gives the value of the **one** key that equals the query. Attention compares "
        "each query with **every** key, turns the scores into weights that sum to 1, and returns "
        "the weighted mean of the values.",
        r"\text{output} = \operatorname{softmax}\!\Big(\frac{Q K^\top}{T\sqrt{d_k}}\Big)\, V",
    )
    frame.predict(
        choices,
        "temperature",
        "The temperature T goes towards 0. What does each row become?",
        [
            "Equal weights for all keys",
            "Weight 1 for the key with the largest score",
            "The values themselves",
        ],
        1,
        "Scores are divided by T, so differences grow without bound and softmax gives everything "
        "to the largest: a hard lookup. For large T all weights become 1/n.",
    )
    with frame.row():
        n = choices.slide("tokens", "Tokens", SIZES, 4, width=200)
        d_k = choices.slide("width", "Width d_k", WIDTHS, 3, width=200)
        temperature = choices.amount(
            "temperature", "Temperature T", 0.05, 5.0, 1.0, step=0.05, width=200
        )
        play(choices, "temperature", temperature, COOLING, "the temperature, from hot to cold")
    query, key, value = example(n, d_k)
    with st.container(horizontal=True):
        query = _edited(choices, "q", "Queries Q", query)
        key = _edited(choices, "k", "Keys K", key)
        value = _edited(choices, "v", "Values V", value)
    _pipeline(lookup(query, key, value, temperature), n)


def _edited(choices: Choices, name: str, title: str, start: Tensor) -> Tensor:
    """A matrix that can be typed into."""
    rows, columns = start.shape
    begin = tuple(tuple(round(x, 1) for x in row) for row in start.tolist())
    typed = frame.editor(
        choices,
        f"{name}{rows}x{columns}",
        begin,
        WORDS[:rows],
        [str(i) for i in range(columns)],
        title=title,
        most=99.0,
    )
    return torch.tensor(typed)


def _pipeline(found: Lookup, n: int) -> None:
    words, key = WORDS[:n], "soft-lookup-{}".format
    scaled = f"× {format_number(found.scale)}"
    with st.container(horizontal=True):
        for title, scores in (("Q Kᵀ", found.dots), (scaled, found.scores)):
            charts.matrix(key(title), scores, title, rows=words, columns=words, shape="query × key")
        charts.weights(key("softmax"), found.pattern, "softmax", words, words)
        output, shape = "weights × V", "query × d_v"
        charts.matrix(
            key(output), found.output, output, rows=words, columns=("0", "1"), shape=shape
        )
    best = found.pattern.max(-1)
    row = int(best.values.argmax())
    st.markdown(
        f"Row by row the weights sum to {format_number(found.pattern[0].sum())}. The surest query, "
        f"**{words[row]}**, gives {best.values[row]:.0%} of its weight to the key "
        f"**{words[int(best.indices[row])]}**."
    )


def _square_root(choices: Choices) -> None:
    frame.step(
        "Why divide by √d_k?",
        "A score is a sum of d_k products. If the entries of q and k have mean 0 and variance 1, "
        "the sum has variance **d_k**: the wider the head, the larger its scores, and softmax of "
        "large scores is nearly a hard choice through which hardly any gradient flows. Measured "
        "here on 512 random queries and 16 random keys for each width.",
        r"\operatorname{Var}(q \cdot k) = d_k \qquad "
        r"\operatorname{Var}\!\Big(\frac{q \cdot k}{\sqrt{d_k}}\Big) = 1",
    )
    frame.predict(
        choices,
        "root",
        "At d_k = 64, without the division: how much weight does the largest of "
        "16 keys get on average?",
        ["about 1/16", "about a quarter", "more than 80 %"],
        2,
        "Scores then have a standard deviation of 8: the largest is far above the second. Divided "
        "by √64 they have 1, and the largest of 16 weights is about a quarter.",
    )
    called = {key: title for key, (title, _) in ASPECTS.items()}
    aspect = choices.segments("aspect", "What is measured", called, "confidence")
    found = _spread()
    title, unit = ASPECTS[aspect]
    plain, scaled = getattr(found, aspect), getattr(found, f"scaled_{aspect}")
    widths = list(found.widths)
    charts.lines(
        choices.key("spread"),
        {"q·k as it is": (widths, plain), "divided by √d_k": (widths, scaled)},
        title=title,
        x_title="d_k",
        y_title=unit,
        x_axis="log",
        y_axis="log" if aspect == "variance" else "linear",
        table={"d_k": widths, "as it is": plain, "divided": scaled},
        caption="Random queries and keys, 16 keys, 512 queries, seed 0",
        how_to_read="Where the line of the divided scores stays level, the width of the head does "
        "not matter. These are random vectors: trained heads may learn larger scores.",
    )


@st.cache_data(max_entries=1, show_spinner=False)
def _spread():  # type: ignore[no-untyped-def]
    return score_spread()
