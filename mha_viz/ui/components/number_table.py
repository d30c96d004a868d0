"""The matrix of numbers in Streamlit: a table whose cells change in place.

Knows Streamlit. What is drawn is decided in number_table.js.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from mha_viz.plots.browser import script, style

_table = st.components.v2.component(
    "mha_viz.number_table", css=style("number_table"), js=script("number_table")
)


def number_table(
    matrix: dict[str, Any],
    *,
    dark: bool,
    key: str,
    on_click: Callable[[int, int], None] | None = None,
) -> None:
    """Draw a matrix, as wide as its cells need.

    Args:
        matrix: what `mha_viz.plots.numbers.number_matrix` made.
        dark: the theme of the page; a change of it draws the table again.
        key: unique in the app.
        on_click: takes row and column of a cell that was clicked, or chosen with Enter, before the
            run that this causes.
    """

    def chosen() -> None:
        place = _place(st.session_state.get(key), matrix)
        if place is not None and on_click is not None:
            on_click(*place)

    _table(
        key=key, data=matrix | {"dark": dark, "clickable": on_click is not None}, width="content",
        on_cell_change=chosen,
    )  # fmt: skip


def _place(event: Any, matrix: dict[str, Any]) -> tuple[int, int] | None:
    """What the browser sent, if it is a cell of this matrix: anyone can send anything.

    >>> matrix = {"names": [["a", "b"], ["x", "y", "z"]]}
    >>> _place({"cell": {"of": [2, 3], "at": [1, 2]}}, matrix)
    (1, 2)
    >>> _place({"cell": {"of": [2, 3], "at": [2, 0]}}, matrix) is None
    True
    """
    sent = event.get("cell") if isinstance(event, Mapping) else None
    sizes = [len(axis) for axis in matrix["names"]]
    if not isinstance(sent, Mapping) or sent.get("of") != sizes:
        return None  # also where the page has gone on to another matrix meanwhile
    at = sent.get("at")
    if not isinstance(at, list) or len(at) != 2 or {type(i) for i in at} != {int}:
        return None
    row, column = at
    return (row, column) if 0 <= row < sizes[0] and 0 <= column < sizes[1] else None
