"""Lab 7's pattern: chosen, painted by clicks, or typed as digits."""

from __future__ import annotations

import re

import streamlit as st

from mha_viz.errors import ArgumentError
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.any_pattern import patterns
from mha_viz.ui.state import state
from mha_viz.ui.widgets.messages.messages import plain

TEXTS = read_texts(__package__)

OWN = "own"
NAMES = TEXTS.labels("patterns")
Rows = tuple[str, ...]


def painted(choices: Choices) -> tuple[Rows, int]:
    """Draw the controls and the grid; return the pattern as rows of digits, and the seed."""
    with frame.row():
        name = choices.menu("pattern", "Where tokens look", NAMES, "diagonal", width=220)
        n = choices.slide("tokens", "Tokens n", patterns.SIZES, 8, width=180)
        seed_help = TEXTS("painting.seed")
        seed = choices.number("seed", "Seed", 0, 9_999, 0, width=120, help=seed_help)
    rows = _rows(choices, name, n, seed)
    left, right = st.columns([3, 2], gap="medium")
    with right:
        brush_help = TEXTS("painting.brush")
        brush = choices.slide("brush", "A click paints", range(10), 9, width=220, help=brush_help)
        _typed(choices, rows, n)
    with left:
        _grid(choices, rows, brush)
    return rows, seed


def _rows(choices: Choices, name: str, n: int, seed: int) -> Rows:
    """Return the chosen pattern as digits; warn of a typed one that is not valid."""
    if name != OWN:
        return patterns.preset(name, n, seed)
    rows = _split(choices.get(f"own{n}", "-".join(patterns.preset("diagonal", n)), _readable))
    try:
        if len(rows) != n:
            raise ArgumentError(f"there must be {n} rows, got {len(rows)}.")
        patterns.pattern_of(rows)
    except ArgumentError as error:
        st.warning(TEXTS("painting.invalid", error=plain(str(error))))
        return patterns.preset("diagonal", n)
    return rows


def _split(text: str) -> Rows:
    return tuple(part for part in re.split(r"[\s,;/-]+", text) if part)


def _readable(raw: str) -> str:
    if len(raw) > 400:
        raise ValueError
    return "-".join(_split(raw))


def _own(choices: Choices, rows: Rows, n: int) -> None:
    choices.set(f"own{n}", "-".join(rows))
    choices.set("pattern", OWN)


def _typed(choices: Choices, rows: Rows, n: int) -> None:
    """Draw a text area in which the same pattern can be typed."""
    state.control(
        choices.key(f"typed-{n}"),
        st.text_area,
        "Or type it: a row for each query, a digit for each key",
        height=30 + 25 * n,
        max_chars=400,
        value="\n".join(rows),
        take=lambda raw: _own(choices, _split(raw), n),
    )


def _grid(choices: Choices, rows: Rows, brush: int) -> None:
    target, n = patterns.pattern_of(rows), len(rows)

    def paint(query: int, key: int) -> None:
        digit = "0" if rows[query][key] == str(brush) else str(brush)
        line = rows[query][:key] + digit + rows[query][key + 1 :]
        _own(choices, (*rows[:query], line, *rows[query + 1 :]), n)

    names = [str(i) for i in range(n)]
    charts.weights(choices.key("painted"), target, "Painted", names, names, on_click=paint)
    empty = [str(i) for i, row in enumerate(rows) if set(row) == {"0"}]
    text = TEXTS("painting.grid")
    st.caption(f"{text} {TEXTS('painting.empty', rows=', '.join(empty))}" if empty else text)
