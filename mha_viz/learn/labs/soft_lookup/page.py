"""Lab 1 on screen: pick, compute, draw."""

from collections.abc import Sequence

import streamlit as st
import torch
from torch import Tensor

from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.soft_lookup import numbers as lab
from mha_viz.learn.labs.soft_lookup.numbers import WORDS, Lookup
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
_SPREAD = st.cache_data(max_entries=1, show_spinner=False)(lab.score_spread)


@layout.part
def draw(choices: Choices) -> None:
    """Draw the lookup with every number and the temperature, then the square root."""
    cover, question, picture = TEXTS.opening(choices, "temperature", (2, 3))
    with question, layout.row():
        temperature = TEXTS.choose(choices, "temperature")
    with picture, layout.row():
        n, d_k = TEXTS.choose(choices, "tokens"), TEXTS.choose(choices, "width")
    TEXTS.step("lookup")
    with st.container(horizontal=True):
        grids = zip("qkv", ("Queries Q", "Keys K", "Values V"), lab.example(n, d_k), strict=True)
        query, key, value = (_edited(choices, *grid) for grid in grids)
    lookup = lab.lookup(query, key, value, temperature)
    _scores(lookup, WORDS[:n])
    with picture, cover():
        _weights(lookup, WORDS[:n])
    _square_root(choices)


def _edited(choices: Choices, name: str, title: str, start: Tensor) -> Tensor:
    rows, columns = start.shape
    begin = tuple(tuple(round(x, 1) for x in row) for row in start.tolist())
    grid = layout.Grid(title, begin, WORDS[:rows], [str(i) for i in range(columns)])
    return torch.tensor(layout.editor(choices, f"{name}{rows}x{columns}", grid, most=99.0))


def _scores(lookup: Lookup, words: Sequence[str]) -> None:
    scaled = f"× {format_number(lookup.scale)}"
    with st.container(horizontal=True):
        for title, scores in (("Q Kᵀ", lookup.dots), (scaled, lookup.scores)):
            key, shape = f"soft-lookup-{title}", "query × key"
            charts.matrix(key, scores, title, rows=words, columns=words, shape=shape)


def _weights(lookup: Lookup, words: Sequence[str]) -> None:
    with st.container(horizontal=True):
        charts.weights("soft-lookup-softmax", lookup.pattern, "softmax", words, words)
        key, title, shape = "soft-lookup-output", "weights × V", "query × d_v"
        charts.matrix(key, lookup.output, title, rows=words, columns=("0", "1"), shape=shape)
    best = lookup.pattern.max(-1)
    row = int(best.values.argmax())
    query, strongest, weight = words[row], words[int(best.indices[row])], best.values[row]
    total = format_number(lookup.pattern[0].sum())
    TEXTS.markdown("pipeline.summary", total=total, query=query, weight=weight, key=strongest)


def _square_root(choices: Choices) -> None:
    TEXTS.step("square-root")
    titles, aspect = TEXTS.labels("aspects"), TEXTS.choose(choices, "aspect")
    (plain, scaled), widths = _SPREAD()[aspect], list(lab.WIDTHS)
    charts.lines(
        choices.key("spread"),
        {"q·k as it is": (widths, plain), "divided by √d_k": (widths, scaled)},
        y_axis="log" if aspect == "variance" else "linear",
        **TEXTS.lines("spread", title=titles[aspect], unit=TEXTS(f"aspect-units.{aspect}")),
    )
