"""Differences between two texts or models: cell by cell, metric by metric, head by head."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Num
from torch import Tensor

from mha_viz.errors import ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.frame import Numbers, Part
from mha_viz.plots.heatmap import Pooled
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, head_name, hover_text, layer_names


def difference_heatmap(
    pair: tuple[Float[np.ndarray | Tensor, "query key"], Float[np.ndarray | Tensor, "query key"]],
    labels: tuple[Sequence[str], Sequence[str]],
    *,
    title: str = "",
    names: tuple[str, str] = ("A", "B"),
    side: int = 520,
    dark: bool = False,
    masked: tuple[Any, Any] | None = None,
) -> go.Figure:
    """Draw b minus a of a pair (a, b), cell by cell, in two hues that are symmetric around 0.

    `labels` are those of queries and of keys. Hover shows both values and the difference. A cell
    that only one of the two has (NaN in the other: see `mha_viz.core.compare.alignment.aligned`) is
    grey and hatched, rising for A and falling for B; hover shows its value. A cell that neither has
    is grey; if a mask is the reason, hover shows it. `masked` are the cells that the mask of
    either side hides: no weights of 0, so that the other side has them alone. Without a title it is
    "B minus A", by `names`. Beyond 512 tokens a cell is the largest of several differences, and a
    note says of how many.
    """
    first = frame.as_numbers(pair[0], 2, "a (query, key)")
    second = frame.as_numbers(pair[1], 2, "b (query, key)")
    if first.shape != second.shape:
        raise ShapeError(f"a and b must have one shape: {first.shape} and {second.shape}.")
    hidden = np.zeros(first.shape, dtype=bool)
    if masked is not None:
        first_masked, second_masked = (np.asarray(side, dtype=bool) for side in masked)
        first = frame.where_visible(first, ~first_masked, np.nan)
        second = frame.where_visible(second, ~second_masked, np.nan)
        hidden = np.isnan(first) & np.isnan(second) & (first_masked | second_masked)
    sizes = zip(labels, first.shape, ("queries", "keys"), strict=True)
    rows, columns = (clean_all(*axis) for axis in sizes)
    pooled = Pooled.of(_sizes(first, second))
    first, second, hidden = pooled.take(first), pooled.take(second), pooled.take(hidden)
    rows, columns = pooled.names(rows), pooled.names(columns)
    cell = min(side / max(first.shape), 40.0)
    shown_names = (clean(names[0], 40), clean(names[1], 40))
    traces = [
        _change(first, second, shown_names, cell, dark),
        *_lone_cells(first, second, shown_names, cell, dark),
        *([cells.masked(hidden, cell, dark)] if hidden.any() else []),
    ]
    notes = [*_notes(first, second, shown_names), *(["Grey: masked."] if hidden.any() else [])]
    notes += [f"{pooled.note.capitalize()} differences."] if pooled.note else []
    title = title or f"{shown_names[1]} minus {shown_names[0]}"
    return cells.square_cells_figure(traces, (rows, columns), cell, title, notes, dark)


def _sizes(a: Numbers, b: Numbers) -> Numbers:
    """Return what each cell counts where they are pooled; one that a side lacks: less than any."""
    lone = np.where(np.isnan(a) != np.isnan(b), 1e-30, np.nan)
    return np.where(np.isnan(b - a), lone, np.abs(b - a) + 1e-29)


def _change(a: Numbers, b: Numbers, names: tuple[str, str], cell: float, dark: bool) -> Part:
    change = b - a
    first, second = (hover_text(name) for name in names)
    hover = (
        f"%{{y}} → %{{x}}<br>{first}: {theme.hover('customdata[0]')}<br>{second}: "
        f"{theme.hover('customdata[1]')}<br>difference <b>{theme.hover('z', signed=True)}</b>"
        "<extra></extra>"
    )
    colours = cells.scale_colours(change, True, None, dark)
    both = np.stack((a, b), axis=-1).astype(np.float32)
    return cells.heatmap_cells(change, cell, colours, hover) | dict(customdata=both)


def _lone_cells(
    a: Numbers, b: Numbers, names: tuple[str, str], cell: float, dark: bool
) -> list[Part]:
    """Return the cells of only one of the two, as separate cells that all have one colour."""
    traces: list[Part] = []
    for values, other, name, falling in ((a, b, names[0], False), (b, a, names[1], True)):
        lone = np.isfinite(values) & np.isnan(other)
        number = f"<b>{theme.hover('z')}</b><extra></extra>"
        hover = f"%{{y}} → %{{x}}<br>only in {hover_text(name)}: {number}"
        if lone.any():
            traces.append(cells.grey_cells(np.where(lone, values, np.nan), cell, dark, hover))
            traces += cells.hatching(lone, dark, falling=falling)
    return traces


def _notes(a: Numbers, b: Numbers, names: tuple[str, str]) -> list[str]:
    only_a, only_b = (
        int((np.isfinite(values) & np.isnan(other)).sum()) for values, other in ((a, b), (b, a))
    )
    if not (only_a or only_b):
        return []
    return [
        f"Hatched: {only_a:,} cells only in {names[0]} (rising), {only_b:,} only in {names[1]} "
        "(falling)."
    ]


def head_changes(
    change: Num[np.ndarray | Tensor, "layer head"],
    title: str = "",
    unit: str = "",
    *,
    diverging: bool = False,
    limits: frame.Limits | None = None,
    hover_notes: Sequence[Sequence[str]] | None = None,
    **look: Unpack[frame.HeadLook],
) -> go.Figure:
    """Draw how much each head (layer, head) changed: a row per layer, a column per head.

    Colours run from 0, or from the first of `limits` to the second. Names the three heads with the
    largest values; of signed (`diverging`) ones those furthest from 0. An invisible point in each
    cell makes clicks readable: customdata is [layer, head]. Hover shows `hover_notes` below each
    head's value.
    """
    values = frame.as_numbers(change, 2, "change (layer, head)")
    dark, layer_numbers = look.get("dark", False), look.get("layer_numbers", ())
    layers, heads = values.shape
    least, most = (float(end(values, initial=0.0)) for end in (np.nanmin, np.nanmax))
    if limits is None and not diverging:
        limits = least, most or 1.0
    cell = min(max(300 / layers, 14.0), 44.0)
    colours = cells.scale_colours(values, diverging, limits, dark)
    traces = [
        cells.heatmap_cells(values, cell, colours),
        *cells.hatching(np.isnan(values), dark),
        *_head_points(values, unit, diverging, hover_notes),
        cells.label_axes_trace(),
    ]
    if (selected := look.get("selected")) is not None:
        layer, head = frame.check_head(selected, layers, heads)
        corners = (head - 0.5, layer - 0.5, head + 0.5, layer + 0.5)
        traces.append(cells.frame_trace([corners], 3, theme.accent(dark)))
    rows, columns = layer_names(layers, layer_numbers), [f"H{i}" for i in range(heads)]
    # Two letters fit a narrow column, but not each of many.
    wide = 40.0 if heads <= 14 else cells.PHONE_WIDTH / heads
    layout = dict(
        hoverdistance=-1,
        shapes=[cells.missing_background(layers, heads, dark)],
        **cells.cell_axes(rows, columns, cell, wide),
    )
    title = frame.with_unit(title, unit)
    notes = _largest(values, diverging, layer_numbers)
    return cells.headed_cells(traces, dark, title, notes, cell * layers, layout, 22)


def _head_points(
    values: Numbers, unit: str, diverging: bool, hover_notes: Sequence[Sequence[str]] | None
) -> list[Part]:
    heads = np.moveaxis(np.indices(values.shape), 0, -1)
    number = f"<b>{theme.hover('marker.color', signed=diverging)}</b> {hover_text(unit)}"
    # customdata as lists: browsers return typed arrays as mappings
    points = [
        trace | dict(customdata=trace["customdata"].tolist())
        for trace in cells.clickable(values, heads, "%{y} %{x}", number)
    ]
    if hover_notes is not None and not np.isnan(values).all():
        points[0] |= dict(
            text=[hover_notes[layer][head] for layer, head in points[0]["customdata"]],
            hovertemplate=points[0]["hovertemplate"].replace("<extra>", "<br>%{text}<extra>"),
        )
    return points


def _largest(values: Numbers, signed: bool, layer_numbers: Sequence[int]) -> list[str]:
    """Return notes on the largest values, and on heads without one."""
    sizes = np.abs(np.nan_to_num(values)).ravel()
    order = np.argsort(-sizes, kind="stable")[:3]
    numbers = {
        head_name(*divmod(i, values.shape[1]), numbers=layer_numbers): values.flat[i]
        for i in order.tolist()
        if sizes[i]
    }
    shown = [
        f"{name} ({theme.format_number(value, signed=signed)})" for name, value in numbers.items()
    ]
    notes = [f"{'Furthest from 0' if signed else 'Most'}: {', '.join(shown)}."] if shown else []
    if missing := int(np.isnan(values).sum()):
        notes.append(f"Hatched: {missing:,} of {values.size:,} heads without a value.")
    return notes
