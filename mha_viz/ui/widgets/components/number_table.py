"""Matrices of numbers in Streamlit: tables whose cells change in place.

What is drawn is decided in number_table.js.
"""

from collections.abc import Callable, Sequence
from typing import Any

from mha_viz.plots.pictures import Cells
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser
from mha_viz.ui.widgets.components.component import component, event_of, validate_cell

_tables = component("number_table")


def number_tables(
    matrices: Sequence[Cells],
    *,
    dark: bool,
    key: str,
    across: int | None = None,
    on_click: Callable[[int, int], None] | None = None,
) -> None:
    """Draw matrices beside each other, each as large as its cells need."""

    @guarded
    def chosen() -> None:
        cell = _clicked_cell(from_browser(key), matrices)
        if cell is not None and on_click is not None:
            on_click(*cell)

    settings: dict[str, Any] = {"across": across, "dark": dark, "clickable": on_click is not None}
    settings["tables"] = [vars(matrix) for matrix in matrices]
    _tables(key=key, data=settings, width="content", on_cell_change=chosen)


def _clicked_cell(event: Any, matrices: Sequence[Cells]) -> tuple[int, int] | None:
    """Return the cell that the browser sent, if there is one: anyone can send anything.

    >>> names = ["a", "b"], ["x", "y", "z"]
    >>> matrices = [Cells("A", names, [0.0] * 6, 0.0, 1.0, "grey", (9.0, 9.0))]
    >>> _clicked_cell({"cell": {"table": 0, "of": [2, 3], "at": [1, 2]}}, matrices)
    (1, 2)
    >>> _clicked_cell({"cell": {"table": 0, "of": [2, 3], "at": [2, 0]}}, matrices) is None
    True
    """
    sent = event_of(event, "cell")
    table = sent.get("table")
    if type(table) is not int or not 0 <= table < len(matrices):
        return None
    sizes = [len(axis) for axis in matrices[table].names]
    if sent.get("of") != sizes:
        return None  # also where the page has gone on to another matrix meanwhile
    return validate_cell(sent.get("at"), sizes)
