"""Differences between two texts or models: cell by cell, metric by metric, head by head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells
from mha_viz.plots.frame import (
    as_numbers,
    check_head,
    headed_figure,
    keep_on_click,
    markers,
    quantity,
    where_visible,
    with_unit,
)
from mha_viz.plots.report_card import Text, row_figure, row_lines, row_texts, text_trace
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, head_name, hover_text, plotly_text


def difference_heatmap(
    a: Float[np.ndarray | Tensor, "query key"],
    b: Float[np.ndarray | Tensor, "query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    title: str = "",
    names: tuple[str, str] = ("A", "B"),
    side: int = 520,
    dark: bool = False,
    masked: tuple[Any, Any] | None = None,
) -> go.Figure:
    """Draw b minus a (query, key), cell by cell, in two hues that are symmetric around 0.

    Hover tells both values and the difference. A cell that only one of the two has (NaN in the
    other: see `mha_viz.core.compare.alignment.aligned`) is grey and hatched, rising for A and
    falling for B; hover tells its value. A cell that neither has is grey; where that is because of
    a mask, hover says so. `masked` are the cells that the mask of either side hides: no weights of
    0, so that the other side has them alone. Without a title it is "B minus A", by `names`.
    """
    first, second = as_numbers(a, 2, "a (query, key)"), as_numbers(b, 2, "b (query, key)")
    if first.shape != second.shape:
        raise ShapeError(f"a and b must have one shape: {first.shape} and {second.shape}.")
    hidden = np.zeros(first.shape, dtype=bool)
    if masked is not None:
        one, two = (np.asarray(side, dtype=bool) for side in masked)
        first, second = where_visible(first, ~one, np.nan), where_visible(second, ~two, np.nan)
        hidden = np.isnan(first) & np.isnan(second) & (one | two)
    queries, keys = first.shape
    rows = clean_all(query_labels, queries, "queries")
    columns = clean_all(key_labels, keys, "keys")
    cell = min(side / max(queries, keys), 40.0)
    called = (clean(names[0], 40), clean(names[1], 40))
    traces = [
        _change(first, second, called, cell, dark),
        *_lone_cells(first, second, called, cell, dark),
        *([cells.masked(hidden, cell, dark)] if hidden.any() else []),
    ]
    notes = [*_notes(first, second, called), *(["Grey: masked."] if hidden.any() else [])]
    title = title or f"{called[1]} minus {called[0]}"
    return cells.square_cells(traces, (rows, columns), cell, title, notes, dark)


def _change(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    names: tuple[str, str],
    cell: float,
    dark: bool,
) -> dict[str, Any]:
    change = b - a
    first, second = (hover_text(name) for name in names)
    hover = dict(
        customdata=np.stack((a, b), axis=-1).astype(np.float32),
        hoverongaps=False,
        hovertemplate=(
            f"%{{y}} → %{{x}}<br>{first}: %{{customdata[0]:.4~g}}<br>{second}: "
            "%{customdata[1]:.4~g}<br>difference <b>%{z:+.4~g}</b><extra></extra>"
        ),
    )
    colours = cells.scale_colours(change, True, None, dark) | dict(colorbar=cells.colour_bar(dark))
    return cells.heatmap_cells(change, cell, colours, hover)


def _lone_cells(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    names: tuple[str, str],
    cell: float,
    dark: bool,
) -> list[dict[str, Any]]:
    """Return the cells of only one of the two, as separate cells that all have one colour."""
    grey = dict(showscale=False, colorscale=theme.stops([theme.missing(dark)] * 2))
    traces: list[dict[str, Any]] = []
    for values, other, name, falling in ((a, b, names[0], False), (b, a, names[1], True)):
        lone = np.isfinite(values) & np.isnan(other)
        only = f"%{{y}} → %{{x}}<br>only in {hover_text(name)}: <b>%{{z:.4~g}}</b><extra></extra>"
        if lone.any():
            hover = dict(hoverongaps=False, hovertemplate=only)
            traces.append(cells.heatmap_cells(np.where(lone, values, np.nan), cell, grey, hover))
            traces.append(cells.hatching(lone, dark, falling=falling))
    return traces


def _notes(a: NDArray[np.float64], b: NDArray[np.float64], names: tuple[str, str]) -> list[str]:
    first, second = names
    notes = []
    only_a = int((np.isfinite(a) & np.isnan(b)).sum())
    only_b = int((np.isfinite(b) & np.isnan(a)).sum())
    if only_a or only_b:
        notes.append(
            f"Hatched: {only_a:,} cells only in {first} (rising), {only_b:,} only in {second} "
            "(falling)."
        )
    return notes


def head_changes(
    change: Num[np.ndarray | Tensor, "layer head"],
    title: str = "",
    unit: str = "",
    *,
    diverging: bool = False,
    selected: tuple[int, int] | None = None,
    asides: Sequence[Sequence[str]] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw how much each head (layer, head) changed: a row per layer, a column per head.

    Names the three heads with the largest values; of signed (`diverging`) ones those furthest from
    0. An invisible point in each cell makes clicks readable: customdata is [layer, head]. Hover
    shows `asides` below each head's value.
    """
    values = as_numbers(change, 2, "change (layer, head)")
    layers, heads = values.shape
    least, most = (float(end(values, initial=0.0)) for end in (np.nanmin, np.nanmax))
    limits = None if diverging else (least, most or 1.0)
    cell = min(max(300 / layers, 14.0), 44.0)
    colours = cells.scale_colours(values, diverging, limits, dark)
    colours |= dict(colorbar=cells.colour_bar(dark))
    points = _head_points(values, unit, diverging, asides)
    traces = [
        cells.heatmap_cells(values, cell, colours, dict(hoverinfo="skip")),
        *([cells.hatching(np.isnan(values), dark)] if np.isnan(values).any() else []),
        *points,
        cells.on_label_axes(),
    ]
    if selected is not None:
        layer, head = check_head(selected, layers, heads)
        frame = cells.frame_trace([(head - 0.5, layer - 0.5, head + 0.5, layer + 0.5)])
        traces.append(frame | dict(line=dict(width=3, color=theme.accent(dark))))
    rows, columns = [f"L{i}" for i in range(layers)], [f"H{i}" for i in range(heads)]
    layout = dict(
        hoverdistance=-1,
        shapes=[cells.missing_ground(layers, heads, dark)],
        **cells.cell_axes(rows, columns, cell, _column(heads)),
    )
    title, notes, inner = with_unit(title, unit), _largest(values, diverging), cell * layers + 34
    return headed_figure(traces, dark, title, notes, inner, layout, above=cells.BAR)


def _column(heads: int) -> float:
    """Return a width for thinning labels: two letters fit a narrow column, but not each of many."""
    return 40.0 if heads <= 14 else cells.PHONE / heads


def _head_points(
    values: NDArray[np.float64],
    unit: str,
    diverging: bool,
    asides: Sequence[Sequence[str]] | None,
) -> list[dict[str, Any]]:
    heads = np.moveaxis(np.indices(values.shape), 0, -1)
    number = f"<b>%{{marker.color:{'+' * diverging}.4~g}}</b> {hover_text(unit)}"
    # customdata as lists: browsers return typed arrays as mappings
    points = [
        trace | dict(customdata=trace["customdata"].tolist())
        for trace in cells.clickable(values, heads, "%{y} %{x}", number)
    ]
    if asides is not None and not np.isnan(values).all():
        points[0] |= dict(
            text=[asides[layer][head] for layer, head in points[0]["customdata"]],
            hovertemplate=points[0]["hovertemplate"].replace("<extra>", "<br>%{text}<extra>"),
        )
    return points


def _largest(values: NDArray[np.float64], signed: bool) -> list[str]:
    sizes = np.abs(np.nan_to_num(values)).ravel()
    order = np.argsort(-sizes, kind="stable")[:3]
    found = [i for i in order.tolist() if sizes[i] > 0]
    notes = []
    if found:
        numbers = {
            i: f"{values.flat[i]:+.3g}" if signed else theme.format_number(values.flat[i])
            for i in found
        }
        names = (f"{head_name(*divmod(i, values.shape[1]))} ({numbers[i]})" for i in found)
        notes.append(f"{'Furthest from 0' if signed else 'Most'}: {', '.join(names)}.")
    missing = int(np.isnan(values).sum())
    if missing:
        notes.append(f"Hatched: {missing:,} of {values.size:,} heads without a value.")
    return notes


def metric_change(
    rows: Mapping[str, tuple[SupportsFloat, SupportsFloat]],
    *,
    names: tuple[str, str] = ("A", "B"),
    dark: bool = False,
) -> go.Figure:
    """Draw every metric before and after: two marks joined by a line, each on its own scale.

    `rows` are (value in A, value in B) by the metric's title. A scale runs from 0 to the larger
    value (from the smaller one, where that is negative).
    """
    if not rows:
        raise ArgumentError("There is no metric to draw.")
    called = [plotly_text(clean(name, 40)) for name in names]
    places: list[tuple[float, float]] = []
    texts: list[Text] = []
    hovers = []
    for row, (name, pair) in enumerate(rows.items()):
        a, b = (float(value) for value in pair)
        low, high = (float(end([0, a, b])) for end in (np.nanmin, np.nanmax))
        reach = (high - low) or 1.0
        places.append(((a - low) / reach, (b - low) / reach))
        change = f"{quantity(a, '')} → <b>{quantity(b, '')}</b>"
        if np.isnan(a) and np.isnan(b):
            change = "not defined"
        texts += row_texts(row, name, change, (low, high), "", dark)
        hovers.append(_change_hover(name, (a, b), called))
    spots = np.array(places)
    between = dict(
        x=np.c_[spots, np.full(len(spots), np.nan)].ravel(),
        y=np.repeat(np.arange(len(spots)), 3),
        mode="lines",
        line=dict(width=3, color=theme.muted(dark)),
        hoverinfo="skip",
    )
    unnamed = dict(showlegend=False)
    traces = [row_lines(len(rows), dark) | unnamed, between | unnamed]
    for i, (name, symbol, size) in enumerate(
        zip(called, ("circle-open", "diamond"), (13, 11), strict=True)
    ):
        colour = theme.qualitative(dark)[i]
        edge = dict(width=3, color=colour)
        mark = dict(symbol=symbol, size=size, color=colour, line=edge)
        dots = markers(spots[:, i], np.arange(len(spots)), hovers, name=name, marker=mark)
        traces.append(dots | keep_on_click(1))
    traces.append(text_trace(texts, dark) | unnamed)
    return row_figure(traces, len(rows), "", ["Each row on its own scale."], dark, named=True)


def _change_hover(name: str, pair: tuple[float, float], called: list[str]) -> str:
    values = "<br>".join(
        f"{one}: <b>{quantity(value, '')}</b>" for one, value in zip(called, pair, strict=True)
    )
    change = pair[1] - pair[0]
    more = f"<br>change <b>{change:+.4g}</b>" if np.isfinite(change) else ""
    return f"{plotly_text(clean(name, 60))}<br>{values}{more}"
