"""What differs between two texts or two models: cell by cell, metric by metric, head by head."""

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
    Limits,
    as_numbers,
    build_figure,
    check_head,
    heading,
    quantity,
    stays,
    with_unit,
)
from mha_viz.plots.rows import Text, in_rows, row_texts, rules, texts_of
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, head_name, hover_text, plotly_text


def difference_heatmap(
    a: Float[NDArray | Tensor, "query key"],  # type: ignore[type-arg]
    b: Float[NDArray | Tensor, "query key"],  # type: ignore[type-arg]
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    title: str = "",
    names: tuple[str, str] = ("A", "B"),
    side: int = 520,
    dark: bool = False,
) -> go.Figure:
    """B minus A, cell by cell, in two hues that are symmetric around 0.

    Hover tells both values and the difference. A cell that only one of the two has (NaN in the
    other: see `mha_viz.core.alignment.aligned`) is grey and hatched, rising for A and falling for
    B; hover tells its value. A cell that neither has is grey.

    Args:
        a, b: (query, key), aligned to each other.
        query_labels, key_labels: any text, also twice the same; never read as markup.
        title: what is drawn; "B minus A" where empty.
        names: what the two are called.
        side: largest height of the cells together, in pixels; in width they stretch.

    Raises:
        ShapeError: matrices of different shapes, labels that do not fit them.
    """
    first, second = as_numbers(a, 2, "a (query, key)"), as_numbers(b, 2, "b (query, key)")
    if first.shape != second.shape:
        raise ShapeError(f"a and b must have one shape: {first.shape} and {second.shape}.")
    queries, keys = first.shape
    rows = [plotly_text(label) for label in clean_all(query_labels, queries, "queries")]
    columns = [plotly_text(label) for label in clean_all(key_labels, keys, "keys")]
    cell, wide = min(side / queries, 40.0), cells.PHONE / keys
    called = (clean(names[0], 40), clean(names[1], 40))
    traces = [
        _change(first, second, called, cell, dark),
        *_lone_cells(first, second, called, cell, dark),
        cells.on_label_axes(),
    ]
    title = title or f"{called[1]} minus {called[0]}"
    text, top = heading(title, _notes(first, second, called), dark)
    labels = 6.3 * max(map(len, cells.fitting(columns, wide)[1])) + 10
    return build_figure(
        traces,
        dark,
        title=text,
        height=round(top + cells.BAR + labels + cell * queries + 12),
        showlegend=False,
        margin=dict(l=8, r=12, t=top + cells.BAR, b=12),
        hovermode="closest",
        dragmode="zoom",
        shapes=[cells.missing_ground(queries, keys, dark)],
        **cells.cell_axes(rows, columns, cell, wide),
    )


def _change(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    names: tuple[str, str],
    cell: float,
    dark: bool,
) -> dict[str, Any]:
    change = b - a
    space = cells.gap(cell)
    both = np.stack((a, b), axis=-1).astype(np.float32)
    first, second = (hover_text(name) for name in names)
    return dict(
        type="heatmap",
        z=change.astype(np.float32),
        customdata=both,
        xgap=space,
        ygap=space,
        hoverongaps=False,
        **cells.colours_of(change, True, None, dark),
        colorbar=cells.colour_bar(dark),
        hovertemplate=(
            f"%{{y}} → %{{x}}<br>{first}: %{{customdata[0]:.4~g}}<br>{second}: "
            "%{customdata[1]:.4~g}<br>difference <b>%{z:+.4~g}</b><extra></extra>"
        ),
    )


def _lone_cells(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    names: tuple[str, str],
    cell: float,
    dark: bool,
) -> list[dict[str, Any]]:
    """The cells of only one of the two, as cells of their own that all have one colour."""
    space = cells.gap(cell)
    traces: list[dict[str, Any]] = []
    for values, other, name, falling in ((a, b, names[0], False), (b, a, names[1], True)):
        lone = np.isfinite(values) & np.isnan(other)
        if lone.any():
            traces.append(
                dict(
                    type="heatmap",
                    z=np.where(lone, values, np.nan).astype(np.float32),
                    showscale=False,
                    xgap=space,
                    ygap=space,
                    hoverongaps=False,
                    colorscale=[[0, theme.missing(dark)], [1, theme.missing(dark)]],
                    hovertemplate=(
                        f"%{{y}} → %{{x}}<br>only in {hover_text(name)}: "
                        "<b>%{z:.4~g}</b><extra></extra>"
                    ),
                )
            )
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
    change: Num[NDArray | Tensor, "layer head"],  # type: ignore[type-arg]
    title: str = "",
    unit: str = "",
    *,
    diverging: bool = False,
    limits: Limits | None = None,
    selected: tuple[int, int] | None = None,
    asides: Sequence[Sequence[str]] | None = None,
    dark: bool = False,
) -> go.Figure:
    """How much each head changed: a row per layer, a column per head.

    Names the three heads that changed most, in either direction. Heads without a value (NaN) are
    grey and hatched. An invisible point in each cell makes clicks readable: customdata is
    [layer, head].

    Args:
        change: (layer, head), differences (signed: `diverging`) or distances from 0 up.
        title, unit: what changed, and what it is counted in.
        limits: the values at the ends of the colour scale; 0 (or symmetric) to the largest where
            None.
        selected: (layer, head) of the chosen head, framed.
        asides: (layer, head), what hover says below each head's value.

    Raises:
        ShapeError: values that are not (layer, head).
        ArgumentError: a head that does not exist.
    """
    values = as_numbers(change, 2, "change (layer, head)")
    layers, heads = values.shape
    most = float(np.nanmax(values, initial=0.0)) or 1.0
    limits = limits or (
        None if diverging else (min(0.0, float(np.nanmin(values, initial=0))), most)
    )
    cell = min(max(300 / layers, 14.0), 44.0)
    coloured = dict(
        type="heatmap",
        z=values.astype(np.float32),
        xgap=1,
        ygap=1,
        hoverinfo="skip",
        colorbar=cells.colour_bar(dark),
        **cells.colours_of(values, diverging, limits, dark),
    )
    points = _head_points(values, unit, diverging, asides)
    traces = [coloured, *_hatched(values, dark), *points, cells.on_label_axes()]
    if selected is not None:
        layer, head = check_head(selected, layers, heads)
        frame = cells.boxes([(head - 0.5, layer - 0.5, head + 0.5, layer + 0.5)])
        traces.append(frame | dict(line=dict(width=3, color=theme.accent(dark))))
    text, top = heading(with_unit(title, unit), _most_changed(values), dark)
    rows, columns = [f"L{i}" for i in _up_to(layers)], [f"H{i}" for i in _up_to(heads)]
    return build_figure(
        traces,
        dark,
        title=text,
        height=round(top + cells.BAR + cell * layers + 34),
        showlegend=False,
        margin=dict(l=8, r=12, t=top + cells.BAR, b=8),
        hovermode="closest",
        hoverdistance=-1,
        dragmode=False,
        shapes=[cells.missing_ground(layers, heads, dark)],
        **cells.cell_axes(rows, columns, cell, _column(heads)),
    )


def _up_to(count: int) -> list[int]:
    return np.arange(count).tolist()


def _column(heads: int) -> float:
    """A width for thinning labels: two letters fit a narrow column, but not every one of many."""
    return 40.0 if heads <= 14 else cells.PHONE / heads


def _hatched(values: NDArray[np.float64], dark: bool) -> list[dict[str, Any]]:
    missing = np.isnan(values)
    return [cells.hatching(missing, dark)] if missing.any() else []


def _head_points(
    values: NDArray[np.float64],
    unit: str,
    diverging: bool,
    asides: Sequence[Sequence[str]] | None,
) -> list[dict[str, Any]]:
    missing = np.isnan(values)
    number = "%{marker.color:+.4~g}" if diverging else "%{marker.color:.4~g}"
    known = f"%{{y}} %{{x}}<br><b>{number}</b> {hover_text(unit)}<extra></extra>"
    points: list[dict[str, Any]] = []
    for where, template, shown in (
        (~missing, known, values[~missing]),
        (missing, "%{y} %{x}<br>not defined<extra></extra>", None),
    ):
        heads = np.argwhere(where)
        if heads.size:
            rows, columns = heads.T
            trace = cells.clickable(rows, columns, heads, shown, template)
            # as lists: typed arrays come back from a browser as mappings
            points.append(trace | dict(customdata=heads.tolist()))
    if asides is not None and not missing.all():
        points[0] |= dict(
            text=[asides[layer][head] for layer, head in points[0]["customdata"]],
            hovertemplate=known.replace("<extra>", "<br>%{text}<extra>"),
        )
    return points


def _most_changed(values: NDArray[np.float64]) -> list[str]:
    sizes = np.where(np.isnan(values), -1.0, np.abs(values)).ravel()
    order = np.argsort(-sizes, kind="stable")[:3]
    found = [i for i in order.tolist() if sizes[i] > 0]
    notes = []
    if found:
        names = (
            f"{head_name(*divmod(i, values.shape[1]))} ({theme.format_number(values.flat[i])})"
            for i in found
        )
        notes.append("Most: " + ", ".join(names) + ".")
    missing = int(np.isnan(values).sum())
    if missing:
        notes.append(f"Hatched: {missing:,} of {values.size:,} heads without a value.")
    return notes


def metric_change(
    rows: Mapping[str, tuple[SupportsFloat, SupportsFloat]],
    *,
    units: Mapping[str, str] | None = None,
    ranges: Mapping[str, Limits] | None = None,
    names: tuple[str, str] = ("A", "B"),
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Every metric before and after, as two marks joined by a line, each on a scale of its own.

    Args:
        rows: (value in A, value in B) by the metric's title, in the order drawn; NaN: not
            defined, which its row says.
        units: by the metric's title.
        ranges: lowest and highest value of a row's scale; where one is missing, it runs from 0 to
            the larger value (from the smaller one, where that is negative).
        names: what the two are called.

    Raises:
        ArgumentError: no metric.
    """
    if not rows:
        raise ArgumentError("There is no metric to draw.")
    called = [plotly_text(clean(name, 40)) for name in names]
    places: list[tuple[float, float]] = []
    texts: list[Text] = []
    hovers = []
    for row, (name, pair) in enumerate(rows.items()):
        a, b = (float(value) for value in pair)
        unit = (units or {}).get(name, "")
        ends = (ranges or {}).get(name, (np.nanmin([0, a, b]), np.nanmax([0, a, b])))
        low, high = (float(end) for end in ends)
        reach = (high - low) or 1.0
        places.append(((a - low) / reach, (b - low) / reach))
        change = f"{quantity(a, '')} → <b>{quantity(b, unit)}</b>"
        if np.isnan(a) and np.isnan(b):
            change = "not defined"
        texts += row_texts(row, name, change, (low, high), "", dark)
        hovers.append(_change_hover(name, (a, b), called, unit))
    spots = np.array(places)
    between = dict(
        x=np.c_[spots, np.full(len(spots), np.nan)].ravel(),
        y=np.repeat(np.arange(len(spots)), 3),
        mode="lines",
        line=dict(width=3, color=theme.muted(dark)),
        hoverinfo="skip",
    )
    unnamed = dict(showlegend=False)
    traces = [rules(len(rows), dark) | unnamed, between | unnamed]
    for i, (name, symbol, size) in enumerate(
        zip(called, ("circle-open", "diamond"), (13, 11), strict=True)
    ):
        colour = theme.qualitative(dark)[i]
        traces.append(
            dict(
                x=spots[:, i],
                y=np.arange(len(spots)),
                mode="markers",
                name=name,
                hovertext=hovers,
                hoverinfo="text",
                **stays(1),
                marker=dict(
                    symbol=symbol, size=size, color=colour, line=dict(width=3, color=colour)
                ),
            )
        )
    traces.append(texts_of(texts, dark) | unnamed)
    return in_rows(traces, len(rows), title, ["Each row on its own scale."], dark, named=True)


def _change_hover(name: str, pair: tuple[float, float], called: list[str], unit: str) -> str:
    values = "<br>".join(
        f"{one}: <b>{quantity(value, unit)}</b>" for one, value in zip(called, pair, strict=True)
    )
    change = pair[1] - pair[0]
    more = f"<br>change <b>{change:+.4g}</b>" if np.isfinite(change) else ""
    return f"{plotly_text(clean(name, 60))}<br>{values}{more}"
