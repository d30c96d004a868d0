"""Matrices of numbers in Streamlit: tables whose cells change in place.

What is drawn is decided in number_table.js.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from mha_viz.plots.numbers import Cells
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.widgets.sent import place_sent
from mha_viz.web.browser import script, style

_tables = st.components.v2.component(
    "mha_viz.number_table", css=style("number_table"), js=script("number_table")
)


def number_tables(
    matrices: Sequence[Cells],
    *,
    dark: bool,
    key: str,
    across: int | None = None,
    on_click: Callable[[int, int], None] | None = None,
) -> None:
    """Draw matrices beside each other, each as large as its cells need.

    Args:
        matrices: each made in mha_viz/plots, as by `number_matrix`.
        dark: the theme of the page; a change of it draws the tables again.
        key: unique in the app.
        across: matrices in a line; as many as there is room for if not given.
        on_click: takes row and column of a cell that was clicked, or chosen with Enter, in any of
            them, before the run that this causes.
    """

    @guarded
    def chosen() -> None:
        place = _place(st.session_state.get(key), matrices)
        if place is not None and on_click is not None:
            on_click(*place)

    settings = {
        "tables": [vars(matrix) for matrix in matrices],
        "across": across,
        "dark": dark,
        "clickable": on_click is not None,
    }
    _tables(key=key, data=settings, width="content", on_cell_change=chosen)


def _place(event: Any, matrices: Sequence[Cells]) -> tuple[int, int] | None:
    """What the browser sent, if it is a cell of these matrices: anyone can send anything.

    >>> names = ["a", "b"], ["x", "y", "z"]
    >>> matrices = [Cells("A", names, [0.0] * 6, 0.0, 1.0, "grey", (9.0, 9.0))]
    >>> _place({"cell": {"table": 0, "of": [2, 3], "at": [1, 2]}}, matrices)
    (1, 2)
    >>> _place({"cell": {"table": 0, "of": [2, 3], "at": [2, 0]}}, matrices) is None
    True
    """
    sent = event.get("cell") if isinstance(event, Mapping) else None
    if not isinstance(sent, Mapping) or type(sent.get("table")) is not int:
        return None
    if not 0 <= sent["table"] < len(matrices):
        return None
    sizes = [len(axis) for axis in matrices[sent["table"]].names]
    if sent.get("of") != sizes:
        return None  # also where the page has gone on to another matrix meanwhile
    return place_sent(sent.get("at"), sizes)
