"""Sentences and tables that several sections share: who a head is, and under which settings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.layer_numbers import numbered as own_numbers
from mha_viz.core.metrics import Baseline
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.reprs import count as count
from mha_viz.plots.frame import where_visible
from mha_viz.plots.heatmap import Pooled
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets.messages.notices import number_columns, readable
from mha_viz.ui.widgets.messages.notices import plain as plain
from mha_viz.web import labels
from mha_viz.web.theme import format_number as format_number

BASELINE_NAMES = {
    "uniform": "uniform attention",
    "offset": "always the token before",
    "random": "random weights",
}
UNDEFINED = "not defined"  # what tables show for NaN
# How a record's notes begin on what the page has to say at once.
UNKNOWN = "The text is largely unknown"
CUT = ("The text was cut", UNKNOWN)
INDUCTION = (
    "Induction is measured on random text that is repeated once: it does not depend on the text "
    "typed."
)
ONE_HEAD = "There is one head only: it has nothing to be compared with."
_ROW, _MAX_ROWS = 35, 11  # pixels of a table's row, and rows that are seen at once
TOO_SHORT_FOR_CKA = (
    "CKA is not defined on fewer than four tokens: nothing is left of it once what chance gives is "
    "taken off. Type a longer text."
)


def head_name(layer: int, head: int, *, numbers: Sequence[int] | None = None) -> str:
    """Name the head at a position of the page's model, or of another one by its layer numbers."""
    layer_names_of = layer_numbers() if numbers is None else numbers
    return labels.head_name(layer, head, numbers=layer_names_of)


def layer_name(layer: int) -> str:
    """Name the layer at a position of the page's model."""
    return labels.layer_name(layer, layer_numbers())


def layer_numbers() -> tuple[int, ...]:
    """Return the own numbers of the layers of the page's model, () for 0, 1, 2 ..."""
    return selection.current().layer_numbers


def by_number(heads: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return heads at positions of the page's model as the library names them."""
    return tuple(own_numbers(heads, layer_numbers()))


def by_position(heads: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return heads as the library names them by their positions in the page's model."""
    numbers = layer_numbers()
    return tuple((numbers.index(layer) if numbers else layer, head) for layer, head in heads)


def names(scene: Scene) -> list[str]:
    """Return all heads by name, in order of layer."""
    record, numbers = scene.record, scene.record.layer_numbers
    return [
        head_name(i, j, numbers=numbers)
        for i in range(record.n_layers)
        for j in range(record.n_heads)
    ]


def head_at(index: int, scene: Scene) -> tuple[int, int]:
    """Return (layer, head) of a head by its number."""
    return divmod(int(index), scene.record.n_heads)


def position_names(labels: Sequence[str]) -> dict[int, str]:
    """Name positions for a menu: labels repeat, so each has its number before it."""
    return {position: f"{position} · {label}" for position, label in enumerate(labels)}


def numbered(labels: Sequence[str]) -> list[str]:
    """Prefix labels with their positions: they repeat, and columns of a table may not."""
    return [f"{position}:{label}" for position, label in enumerate(labels)]


def by_tokens(
    matrix: NDArray[np.floating],
    names: Sequence[str],
    key_names: Sequence[str],
    *,
    corner: str = "query",
    visible: Any = None,
) -> pd.DataFrame:
    """Return a matrix (query, key) as a table; keys that are not `visible` stay empty.

    No two of the names are alike: see `token_window.Shown`. Where it is too large for a chart, a
    cell is the largest of several, as in the chart.
    """
    matrix = where_visible(matrix, visible, np.nan)
    pooled = Pooled.of(matrix)
    rows, columns = pooled.names(names), pooled.names(key_names)
    table = pd.DataFrame(pooled.take(matrix), columns=columns, index=rows)
    return table.reset_index(names=corner)


def listed(
    heads: Sequence[tuple[int, int]], most: int, numbers: Sequence[int] | None = None
) -> str:
    """Name heads as `head_name` does, as many as there is room for.

    >>> listed([(0, 1), (2, 3), (4, 5)], 2, numbers=())
    'L0 H1, L2 H3 and 1 more'
    """
    named = ", ".join(head_name(*head, numbers=numbers) for head in heads[:most])
    return named + (f" and {len(heads) - most} more" if len(heads) > most else "")


def settings(scene: Scene, *more: str) -> str:
    """Write a figure's source: model, text and settings, in one line."""
    return source(scene.record, *more)


def source(record: AttentionRecord, *more: str) -> str:
    """Write model, part and text of a record, and further settings, in one line."""
    text = record.text if len(record.text) <= 200 else record.text[:199] + "…"
    pair = f" | {record.text_pair[:200]}" if record.text_pair else ""
    part = "" if record.part == "self" else f" {record.part}"
    return " · ".join((f"{record.model}{part}", text + pair, *more))


def baseline_values(
    baseline: Baseline | None, layer_head: tuple[int, int] | None = None
) -> dict[str, float]:
    """Return a baseline's numbers by the names they have on screen; of one head, or of all."""
    if baseline is None:
        return {}
    baseline = baseline if layer_head is None else baseline.at(*layer_head)
    values = {name: getattr(baseline, key) for key, name in BASELINE_NAMES.items()}
    return {name: value for name, value in values.items() if value is not None}


def head_values(scene: Scene, columns: Mapping[str, NDArray[np.floating]]) -> pd.DataFrame:
    """Return a row per head, a column for each (layer, head) array."""
    return pd.DataFrame({"Head": names(scene), **{k: np.ravel(v) for k, v in columns.items()}})


def sorted_table(
    named: Mapping[str, Sequence[str]], columns: Mapping[str, NDArray[np.floating]]
) -> pd.DataFrame:
    """Return a table in descending order of the first column's absolute numbers."""
    table = pd.DataFrame({**named, **columns})
    by = next(iter(columns))
    return table.sort_values(by, ascending=False, key=np.abs, kind="stable", ignore_index=True)


def choosable(
    table: pd.DataFrame,
    choose: Callable[[int], object],
    *,
    key: str,
    height: int | None = None,
) -> None:
    """Draw a table whose rows can be chosen: `choose` gets a row's number."""

    @guarded
    def take() -> None:
        rows = from_browser(key)["selection"]["rows"]
        if rows and 0 <= rows[0] < len(table):
            choose(rows[0])

    options: dict[str, Any] = {"key": key, "selection_mode": "single-row", "on_select": take}
    options |= {} if height is None else {"height": height}
    plain_table(table, **options)


def plain_table(table: pd.DataFrame, **options: Any) -> None:
    """Draw a table with three digits, p and q in words, and columns as wide as their contents."""
    shown = readable(table)
    rows = min(len(table) + 1, _MAX_ROWS)
    options = {"height": _ROW * rows + 2} | options | {"hide_index": True, "placeholder": UNDEFINED}
    st.dataframe(shown, column_config=number_columns(shown), **options)


def choose(head: object) -> None:
    """Make a clicked head the chosen one; ignore other points."""
    if isinstance(head, list | tuple) and len(head) == 2:
        selection.change(layer=int(head[0]), head=int(head[1]), query=-1, key=-1)


def choose_pair(indices: object, scene: Scene) -> None:
    """Make a clicked pair's heads the chosen ones."""
    if isinstance(indices, list) and len(indices) == 2:
        choose_both(*(head_at(index, scene) for index in indices))


def choose_both(first: tuple[int, int], second: tuple[int, int]) -> None:
    """Make two heads, as (layer, head), the chosen ones."""
    session().auto_second = None  # somebody has chosen it: it stays where the first one changes
    choose(first)
    selection.change(layer_b=second[0], head_b=second[1])
