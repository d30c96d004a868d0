"""Lab 1 on screen: pick, compute, draw."""

import streamlit as st
import torch
from torch import Tensor

from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.soft_lookup.numbers import WORDS, Lookup, example, lookup, score_spread
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
SIZES = (3, 4, 5, 6, 7, 8)
WIDTHS = (1, 2, 3, 4, 6, 8)
_SPREAD = st.cache_data(max_entries=1, show_spinner=False)(score_spread)
# Each about a fifth colder than the one before: to weights, only the ratio matters.
COOLING = (
    5.0, 4.0, 3.0, 2.5, 2.0, 1.6, 1.25, 1.0, 0.8,
    0.65, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05,
)  # fmt: skip


@frame.part
def draw(choices: Choices) -> None:
    """Draw the lookup with every number, the temperature, the square root."""
    _lookup(choices)
    _square_root(choices)


def _lookup(choices: Choices) -> None:
    TEXTS.step("lookup")
    TEXTS.predict(choices, "temperature")
    with frame.row():
        n = choices.slide("tokens", "Tokens", SIZES, 4, width=200)
        d_k = choices.slide("width", "Width d_k", WIDTHS, 3, width=200)
        temperature = choices.amount(
            "temperature", "Temperature T", 0.05, 5.0, 1.0, step=0.05, width=200
        )
        choices.play("temperature", temperature, COOLING, "the temperature, from hot to cold")
    query, key, value = example(n, d_k)
    with st.container(horizontal=True):
        query = _edited(choices, "q", "Queries Q", query)
        key = _edited(choices, "k", "Keys K", key)
        value = _edited(choices, "v", "Values V", value)
    _pipeline(lookup(query, key, value, temperature), n)


def _edited(choices: Choices, name: str, title: str, start: Tensor) -> Tensor:
    rows, columns = start.shape
    begin = tuple(tuple(round(x, 1) for x in row) for row in start.tolist())
    grid = frame.Grid(title, begin, WORDS[:rows], [str(i) for i in range(columns)])
    return torch.tensor(frame.editor(choices, f"{name}{rows}x{columns}", grid, most=99.0))


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
    query, seen = words[row], words[int(best.indices[row])]
    weight, total = best.values[row], format_number(found.pattern[0].sum())
    TEXTS.markdown("pipeline.summary", total=total, query=query, weight=weight, key=seen)


def _square_root(choices: Choices) -> None:
    TEXTS.step("square-root")
    TEXTS.predict(choices, "root")
    titles = TEXTS.labels("aspects")
    aspect = choices.segments("aspect", "What is measured", titles, "confidence")
    found = _SPREAD()
    plain, scaled = getattr(found, aspect), getattr(found, f"scaled_{aspect}")
    widths = list(found.widths)
    charts.lines(
        choices.key("spread"),
        {"q·k as it is": (widths, plain), "divided by √d_k": (widths, scaled)},
        y_axis="log" if aspect == "variance" else "linear",
        table={"d_k": widths, "as it is": plain, "divided": scaled},
        **TEXTS.lines("spread", title=titles[aspect], unit=TEXTS(f"aspect-units.{aspect}")),
    )
