"""Lab 7's pattern: chosen, painted by clicks, or typed as digits."""

from __future__ import annotations

import re

import streamlit as st

from mha_viz.errors import ArgumentError
from mha_viz.labs import any_pattern_digits
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.session import state
from mha_viz.ui.widgets.messages import plain

OWN = "own"
NAMES = {
    "diagonal": "Itself",
    "previous": "The token before",
    "next": "The token after",
    "first": "The first token",
    "block": "Blocks of three",
    "checkerboard": "Checkerboard",
    "near": "Near tokens (no zeros)",
    "random": "At random (no zeros)",
    OWN: "Painted",
}
Rows = tuple[str, ...]


def painted(choices: Choices) -> tuple[Rows, int]:
    """The controls and the grid; the pattern as rows of digits, and the seed."""
    with frame.row():
        name = choices.menu("pattern", "Where tokens look", NAMES, "diagonal", width=220)
        n = choices.slide("tokens", "Tokens n", any_pattern_digits.SIZES, 8, width=180)
        seed_help = "Of the random starts, and of the random pattern."
        seed = choices.number("seed", "Seed", 0, 9_999, 0, width=120, help=seed_help)
    rows = _rows(choices, name, n, seed)
    left, right = st.columns([3, 2], gap="medium")
    with right:
        brush = choices.slide(
            "brush",
            "A click paints",
            tuple(range(10)),
            9,
            width=220,
            help="Digits are weights before each row is divided by its sum. A second click "
            "takes the weight away.",
        )
        _typed(choices, rows, n)
    with left:
        _grid(choices, rows, brush)
    return rows, seed


def _rows(choices: Choices, name: str, n: int, seed: int) -> Rows:
    """The pattern chosen, as digits; what was typed and is none is said and left out."""
    if name != OWN:
        return any_pattern_digits.preset(name, n, seed)
    rows = _split(
        choices.get(f"own{n}", "-".join(any_pattern_digits.preset("diagonal", n)), _readable)
    )
    try:
        if len(rows) != n:
            raise ArgumentError(f"there must be {n} rows, got {len(rows)}.")
        any_pattern_digits.pattern_of(rows)
    except ArgumentError as error:
        st.warning(
            f"This is no pattern: {plain(str(error))} Each token looks at itself until it is one."
        )
        return any_pattern_digits.preset("diagonal", n)
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
    """The same pattern to be typed: for the keyboard."""
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
    target, n = any_pattern_digits.pattern_of(rows), len(rows)

    def paint(query: int, key: int) -> None:
        digit = "0" if rows[query][key] == str(brush) else str(brush)
        line = rows[query][:key] + digit + rows[query][key + 1 :]
        _own(choices, (*rows[:query], line, *rows[query + 1 :]), n)

    names = [str(i) for i in range(n)]
    charts.weights(choices.key("painted"), target, "Painted", names, names, on_click=paint)
    empty = [str(i) for i, row in enumerate(rows) if set(row) == {"0"}]
    st.caption(
        "Rows are queries, columns keys. Click a cell to paint it, or go there with the arrow keys "
        "and press Enter; each row is divided by its sum."
        + (f" Empty rows ({', '.join(empty)}) look at all keys equally." if empty else "")
    )
