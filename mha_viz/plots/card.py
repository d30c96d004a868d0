"""Every number of one head among all heads: a row of dots per metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.frame import (
    as_numbers,
    check_head,
    chosen_marker,
    quantity,
    stays,
)
from mha_viz.plots.rows import Text, in_rows, row_texts, rules, texts_of
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

TICK = 10  # pixels
_Dot = tuple[float, float, list[int], str]  # x, y, [layer, head], hover
_Tick = tuple[float, float, str, str]  # x, y, symbol, hover


def report_card(
    values: Mapping[str, Num[np.ndarray | Tensor, "layer head"]],
    titles: Mapping[str, str],
    units: Mapping[str, str],
    selected: tuple[int, int],
    *,
    baselines: Mapping[str, Mapping[str, SupportsFloat]] | None = None,
    dark: bool = False,
) -> go.Figure:
    """One head among all heads in every metric: is it unusual?

    A row per metric, each with a scale of its own from the lowest to the highest head, whose
    values stand at its ends. All heads are small dots, the chosen one a large one with its exact
    value at the right. Baselines are ticks; one that no head reaches is an arrow at the end that
    it lies beyond. Heads without a value (NaN) are left out and counted; where that is the chosen
    head, its row says "not defined". Hover tells the rank from the top. customdata of the dots is
    [layer, head].

    Args:
        values: (layer, head) by metric, all of one shape; rows are drawn in this order.
        titles: by metric; the metric's key where one is missing.
        units: by metric; no unit where one is missing.
        selected: (layer, head) of the chosen head.
        baselines: by metric, then by name ("uniform attention").
        dark: colours for a dark page.

    Raises:
        ShapeError: values that are not (layer, head), or of different shapes.
        ArgumentError: no metric, a head that does not exist.
    """
    if not values:
        raise ArgumentError("There is no metric to draw.")
    tables = {key: as_numbers(table, 2, f"{key} (layer, head)") for key, table in values.items()}
    shape = next(iter(tables.values())).shape
    if any(table.shape != shape for table in tables.values()):
        raise ShapeError(f"All metrics must be {shape}, layers and heads.")
    layer, head = check_head(selected, *shape)
    dots: list[_Dot] = []
    texts: list[Text] = []
    ticks: list[_Tick] = []
    for row, (key, table) in enumerate(tables.items()):
        scale = _Scale(table)
        name, unit = titles.get(key, key), units.get(key, "")
        dots += _dots(table, scale, row, name, unit)
        texts += _written(table, scale, row, name, unit, (layer, head), dark)
        ticks += _row_ticks(scale, row, (baselines or {}).get(key, {}), unit)
    small = dict(size=6, color=theme.qualitative(dark)[0], opacity=0.4, line=dict(width=0))
    chosen = [dot for dot in dots if dot[2] == [layer, head]]
    traces = [
        rules(len(tables), dark),
        dict(_markers(dots), marker=small, **stays(0.4)),
        _marks(ticks, dark),
        dict(_markers(chosen), marker=chosen_marker(dark, 14), **stays(1)),
        texts_of(texts, dark),
    ]
    return in_rows(traces, len(tables), head_name(layer, head), _key(ticks), dark)


class _Scale:
    """From a metric's values to places in [0, 1]; all in the middle where they are all equal."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        known = table[np.isfinite(table)]
        self.low, self.high = (
            (float(known.min()), float(known.max())) if known.size else (np.nan, np.nan)
        )

    def place(self, value: Any) -> Any:
        if self.high == self.low:
            return value * 0.0 + 0.5
        return (value - self.low) / (self.high - self.low)


def _height(row: int, layer: Any, layers: int) -> Any:
    """Dots of one layer share a height, the first layer on top: fewer hide each other."""
    return row + 0.13 * (2 * (layer + 0.5) / layers - 1)


def _dots(table: NDArray[np.float64], scale: _Scale, row: int, name: str, unit: str) -> list[_Dot]:
    """A dot for each head that has a value; hover tells its rank from the top."""
    layers, heads = np.nonzero(np.isfinite(table))
    known = table[layers, heads]
    ranks = len(known) + 1 - np.searchsorted(np.sort(known), known, side="right")
    metric = plotly_text(clean(name, 60))
    return [
        (
            x,
            y,
            [layer, head],
            f"{head_name(layer, head)}: {metric}<br><b>{quantity(value, unit)}</b>"
            f"<br>{rank} of {len(known)} from the top",
        )
        for x, y, layer, head, value, rank in zip(
            scale.place(known).tolist(),
            _height(row, layers, len(table)).tolist(),
            layers.tolist(),
            heads.tolist(),
            known.tolist(),
            ranks.tolist(),
            strict=True,
        )
    ]


def _markers(dots: list[_Dot]) -> dict[str, Any]:
    x, y, where, texts = zip(*dots, strict=True) if dots else ((), (), (), ())
    return dict(
        x=np.array(x, np.float32),
        y=np.array(y, np.float32),
        mode="markers",
        customdata=list(where),
        hovertext=list(texts),
        hoverinfo="text",
    )


def _written(
    table: NDArray[np.float64],
    scale: _Scale,
    row: int,
    name: str,
    unit: str,
    selected: tuple[int, int],
    dark: bool,
) -> list[Text]:
    known = np.isfinite(table)
    missing = int((~known).sum())
    aside = f"{missing} of {table.size} not defined" if missing else ""
    value = f'<b style="color:{theme.accent(dark)}">{quantity(float(table[selected]), unit)}</b>'
    ends = (scale.low, scale.high) if known.any() else None
    return row_texts(row, name, value, ends, aside, dark)


def _row_ticks(
    scale: _Scale, row: int, baselines: Mapping[str, SupportsFloat], unit: str
) -> list[_Tick]:
    """x, y, symbol and hover of each baseline: a tick at its place, an arrow beyond the ends."""
    ticks: list[_Tick] = []
    for name, given in baselines.items():
        level = float(given)
        if not np.isfinite(level) or not np.isfinite(scale.low):
            continue
        text = f"{plotly_text(clean(name, 40))}: <b>{quantity(level, unit)}</b>"
        if level < scale.low:
            ticks.append((-0.012, float(row), "triangle-left", f"{text}<br>below every head"))
        elif level > scale.high:
            ticks.append((1.012, float(row), "triangle-right", f"{text}<br>above every head"))
        else:
            ticks.append((float(scale.place(level)), float(row), "line-ns-open", text))
    return ticks


def _marks(ticks: list[_Tick], dark: bool) -> dict[str, Any]:
    # a tick reaches 0.7 of its size up: less than the row's text is above its line
    upright = [symbol.startswith("line") for _, _, symbol, _ in ticks]
    sizes = [TICK if line else 9 for line in upright]
    ink = theme.ink(dark)
    return dict(
        x=[x for x, *_ in ticks],
        y=[y for _, y, *_ in ticks],
        mode="markers",
        hovertext=[text for *_, text in ticks],
        hoverinfo="text",
        marker=dict(
            symbol=[symbol for _, _, symbol, _ in ticks],
            size=sizes,
            color=ink,
            opacity=1,
            line=dict(width=[2.5 if line else 0 for line in upright], color=ink),
        ),
        **stays(1),
    )


def _key(ticks: list[_Tick]) -> list[str]:
    notes = ["Small dots: all heads, each row on its own scale."]
    if ticks:
        notes.append("Upright ticks: baselines; arrows: beyond all heads.")
    return notes
