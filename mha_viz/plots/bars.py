"""Bars: a number as a sum of parts, groups of tokens, histograms, and how a change is spread."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Int, Num
from torch import Tensor

from mha_viz.core.reprs import count
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.frame import Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, head_name, hover_text, plotly_text

_ROW = 20  # pixels that a signed bar takes
_NAME = 22  # letters of a label beside its bar, on a phone; hover shows more
_WHOLE = 24  # letters of names of parts, such as “embedding norm bias”: all
_NAMED = 60  # tokens up to which each has its name below
_LIMITS = 6  # limits of bins that are named below
QUANTILES = (0.05, 0.5, 0.95)  # of the draws, that are marked
_DRAWS = 0.2  # height of the strip of draws below the histogram, as a share of it
_OPACITY = 0.5


def stacked_shares(
    series: Mapping[str, Num[np.ndarray | Tensor, " place"]],
    position_names: Sequence[str],
    unit: str = "",
    *,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw signed parts (place,) stacked above and below 0 for each place, and their sum."""
    n = len(position_names)
    parts = {name: frame.as_numbers(values, 1, name) for name, values in series.items()}
    if not parts or any(len(values) != n for values in parts.values()):
        raise ShapeError(f"each series must have {n} numbers, one per place.")
    hovers = [hover_text(name) for name in clean_all(position_names, n, "places")]
    at = np.arange(n)

    def trace(name: str, values: Any, **more: Any) -> Part:
        number = f"<b>{theme.hover('y', signed=True)}</b> {hover_text(unit)}"
        hover = f"%{{customdata}}, {hover_text(name)}<br>{number}"
        text = dict(customdata=hovers, hovertemplate=f"{hover}<extra></extra>")
        return dict(x=at, y=values, name=plotly_text(name), **text, **more)

    traces = []
    for i, (name, values) in enumerate(parts.items()):
        look: Part = dict(color=theme.qualitative(dark)[i % 8], line=dict(width=0))
        traces.append(trace(clean(name, 30), values, type="bar", marker=look))
    edge = dict(width=2, color=theme.paper(dark))
    look = dict(symbol="diamond", size=11, color=theme.ink(dark), line=edge)
    sums = np.sum(list(parts.values()), axis=0)
    traces.append(trace("together", sums, mode="markers", marker=look))
    step = -(-n // 16)  # names that fit a phone
    turned = dict(tickangle=0 if n <= 8 else -60, fixedrange=True)
    shown = [clean(name, 8) for name in position_names[::step]]
    across = frame.named_axis(at[::step].tolist(), shown, (-0.6, n - 0.4), **turned)
    down = dict(zeroline=True, nticks=7, fixedrange=True, title=frame.axis_title(unit))
    layout = dict(barmode="relative", bargap=0.3, xaxis=across, yaxis=down)
    border = frame.Border(above=6, right_side=8, below=74, legend=True)
    return frame.headed_figure(traces, dark, title, [], 330, layout, border)


def signed_rows(
    labels: Sequence[str],
    values: Num[np.ndarray | Tensor, " row"],
    unit: str = "",
    *,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw a bar for each signed number (row,), with its label before it."""
    numbers = frame.as_numbers(values, 1, "values (row)")
    texts = clean_all(labels, len(numbers), "rows")
    scale = theme.diverging(dark)
    colours = [scale[-2] if value > 0 else scale[1] for value in numbers.tolist()]
    hovers = [
        f"<b>{plotly_text(text)}</b><br>{frame.quantity(value, unit)}"
        for text, value in zip(texts, numbers.tolist(), strict=True)
    ]
    bars = dict(type="bar", x=numbers, y=np.arange(len(numbers)), orientation="h", width=0.72)
    bars |= dict(hovertext=hovers, hoverinfo="text", marker=dict(color=colours, line=dict(width=0)))
    shown = [clean(text, _NAME) for text in texts]
    look = dict(fixedrange=True, automargin=True, tickfont=dict(size=12))
    layout = dict(
        xaxis=dict(zeroline=True, nticks=5, fixedrange=True, title=frame.axis_title(unit)),
        yaxis=frame.named_axis(range(len(numbers)), shown, (len(numbers) - 0.4, -0.6), **look),
    )
    inner, border = _ROW * len(numbers) + 56, frame.Border(above=4, below=48)
    return frame.headed_figure([bars], dark, title, [], inner, layout, border)


def share_matrix(
    matrix: Num[np.ndarray | Tensor, "row column"],
    row_names: Sequence[str],
    column_names: Sequence[str],
    unit: str = "",
    *,
    title: str = "",
    side: int = 560,
    dark: bool = False,
) -> go.Figure:
    """Draw signed parts that have a row and a column each, as cells of two hues around 0."""
    values = frame.as_numbers(matrix, 2, "matrix (row, column)")
    rows, columns = values.shape
    down = clean_all(row_names, rows, "rows")
    across = clean_all(column_names, columns, "columns")
    cell = min(side / max(rows, columns), 56.0)
    number = f"<b>{theme.hover('z', signed=True)}</b> {hover_text(unit)}"
    hover = f"%{{y}} · %{{x}}<br>{number}<extra></extra>"
    colours = cells.scale_colours(values, True, None, dark)
    traces = [cells.heatmap_cells(values, cell, colours, hover)]
    title = frame.with_unit(title, unit)
    return cells.square_cells_figure(traces, (down, across), cell, title, [], dark, _WHOLE)


def token_bars(
    series: Mapping[str, Num[np.ndarray, " token"]],
    labels: Sequence[str],
    unit: str = "",
    *,
    dark: bool = False,
) -> go.Figure:
    """Draw a group of bars per token, one for each series of numbers (token,); NaN leaves a gap."""
    n = len(labels)
    if not series or any(np.shape(values) != (n,) for values in series.values()):
        raise ShapeError(f"each series must have {n} numbers, one per token.")
    names = clean_all(labels, n, "tokens")
    hovers = [hover_text(label) for label in names]
    traces: list[Part] = []
    for i, (name, values) in enumerate(series.items()):
        colour, pattern = theme.qualitative(dark)[i % 8], dict(shape=["", "/"][i % 2])
        hover = f"{hover_text(clean(name))}<br>%{{customdata}} (%{{x}}): <b>{theme.hover('y')}</b>"
        trace = dict(x=np.arange(n), y=np.asarray(values, dtype=np.float32), customdata=hovers)
        trace |= dict(type="bar", name=plotly_text(clean(name)))
        trace |= dict(marker=dict(color=colour, pattern=pattern))
        traces.append(trace | dict(hovertemplate=f"{hover}<extra></extra>"))
    step = max(1, -(-n // _NAMED))
    across = frame.named_axis(range(0, n, step), names[::step], (-0.7, n - 0.3), tickangle=-60)
    down = dict(title=dict(text=plotly_text(unit), font=dict(size=12)), rangemode="tozero")
    layout = dict(barmode="group", bargap=0.25, xaxis=across, yaxis=down, height=330)
    layout |= dict(
        hovermode="closest", margin=dict(l=8, r=8, t=12, b=46), legend=frame.legend(dark)
    )
    return frame.build_figure(traces, dark, layout)


def histogram_bars(
    limits: Num[np.ndarray, " limit"],
    counts: Int[np.ndarray, " bin"],
    title: str,
    unit: str,
    *,
    mark: float | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw how many texts lie in each bin: bars of one width, whatever their limits.

    `limits` ascend, one more than bins. Empty bins before the first filled one and behind the last
    are left out. `mark` is a value whose place is marked; beyond the bins it is at their end.
    """
    ends, numbers = np.asarray(limits, float), np.asarray(counts)
    filled = np.flatnonzero(numbers)
    if len(ends) != len(numbers) + 1 or not filled.size:
        raise ShapeError(f"{len(numbers)} bins need as many limits and one, and something in them.")
    first, last = int(filled[0]), int(filled[-1]) + 1
    ends, numbers = ends[first : last + 1], numbers[first:last]
    named = np.unique(np.linspace(0, len(numbers), min(_LIMITS, len(ends))).round().astype(int))
    hovers = [
        f"{frame.quantity(low, '')} to {frame.quantity(high, unit)}<br><b>{count(n, 'text')}</b>"
        for low, high, n in zip(ends[:-1], ends[1:], numbers.tolist(), strict=True)
    ]
    bars = _bars(np.arange(len(numbers)) + 0.5, numbers, 1, hovers, dark)
    bars |= dict(textposition="none")
    limits_named = [theme.format_number(ends[mark_position]) for mark_position in named]
    across = frame.named_axis(named.tolist(), limits_named, (-0.2, len(numbers) + 0.2), tickangle=0)
    across |= dict(title=frame.axis_title(frame.with_unit(title, unit)))
    down = frame.value_axis("texts") | dict(rangemode="tozero")
    layout: Part = dict(xaxis=across, yaxis=down, bargap=0)
    if mark is not None:
        mark_position = float(np.interp(mark, ends, np.arange(len(ends))))
        width = 0.004 * len(numbers)
        ends_of_mark = (mark_position - width, 0.0), (mark_position + width, float(numbers.max()))
        layout["shapes"] = [frame.rectangle(*ends_of_mark, fillcolor=theme.accent(dark))]
    notes = [f"{count(int(numbers.sum()), 'text')}."]
    return frame.headed_figure([bars], dark, title, notes, 260, layout, frame.Border(below=46))


def _bars(x: Any, y: Any, width: Any, hovers: list[str], dark: bool) -> Part:
    edge = dict(width=1, color=theme.paper(dark))
    look = dict(color=theme.qualitative(dark)[0], line=edge)
    text = dict(hovertext=hovers, hoverinfo="text")
    return dict(type="bar", x=x, y=y, width=width, marker=look, **text)


def change_distribution(
    values: Num[np.ndarray | Tensor, " draw"],
    title: str,
    unit: str,
    *,
    heads: Sequence[tuple[int, int]] | None = None,
    layer_numbers: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw how a change (draw,) is spread: a histogram, every draw below it, quantiles as lines.

    Hover shows how many draws a bar holds and the exact value of each draw. `heads` are the (layer,
    head) that each draw switched off: named on hover, and customdata of the draws.
    """
    numbers = frame.as_numbers(values, 1, "values (draw)")
    if heads is not None and len(heads) != len(numbers):
        raise ShapeError(f"There are {len(numbers)} draws, but {len(heads)} heads were given.")
    is_finite = np.isfinite(numbers)
    if not is_finite.any():
        raise ArgumentError("No draw has a value, so there is nothing to draw.")
    bars, most = _histogram(numbers[is_finite], unit, dark)
    marked = [(share, float(np.quantile(numbers[is_finite], share))) for share in QUANTILES]
    names = [f"draw {i}" for i in range(len(numbers))]
    if heads is not None:
        names = [f"{head_name(*head, numbers=layer_numbers)} off" for head in heads]
    traces = [bars, _draws(numbers, (names, heads), most, unit, dark)]
    traces += [_quantile(*pair, most, dark) for pair in marked]
    above = float((numbers[is_finite] > 0).mean())
    notes = [
        ", ".join(f"{_name(share)} {theme.format_number(value)}" for share, value in marked) + ".",
        f"{int(is_finite.sum()):,} draws, {theme.format_number(100 * above)} % above 0.",
        frame.missing_note(is_finite, "draws"),
    ]
    down = dict(range=[-_DRAWS * most, 1.04 * most], tickvals=_counts(most), zeroline=False)
    layout = dict(
        bargap=0,
        xaxis=frame.value_axis(frame.with_unit("change", unit), fixedrange=True),
        yaxis=frame.value_axis("draws", fixedrange=True, **down),
        annotations=[_name_above(i, *pair, dark) for i, pair in enumerate(marked)],
    )
    border = frame.Border(above=34, right_side=14)
    return frame.headed_figure(traces, dark, title, notes, 300, layout, border)


def _histogram(draws: Numbers, unit: str, dark: bool) -> tuple[Part, int]:
    """Return bars of equal width with exact counts, and the largest count."""
    bins = int(np.clip(np.ceil(2 * len(draws) ** (1 / 3)), 1, 40))  # Rice's rule
    counts, edges = np.histogram(draws, bins if np.ptp(draws) else 1)
    ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True))
    hovers = [
        f"{frame.quantity(a, '')} to {frame.quantity(b, unit)}<br>"
        f"<b>{n:,}</b> of {len(draws):,} draws"
        for a, b, n in ends
    ]
    bars = _bars((edges[:-1] + edges[1:]) / 2, counts, np.diff(edges), hovers, dark)
    bars["marker"]["opacity"] = 0.75
    return bars, int(counts.max())


def _draws(
    values: Numbers,
    named: tuple[Sequence[str], Sequence[tuple[int, int]] | None],
    most: int,
    unit: str,
    dark: bool,
) -> Part:
    """Return every draw as a short upright stroke below the bars, with its name and its head."""
    names, heads = named
    at = np.flatnonzero(np.isfinite(values)).tolist()
    hovers = [f"{names[i]}<br><b>{frame.quantity(float(values[i]), unit)}</b>" for i in at]
    stroke = dict(symbol="line-ns-open", size=16, color=theme.muted(dark), line=dict(width=1.5))
    look = dict(marker=dict(stroke, opacity=_OPACITY), **frame.keep_on_click(_OPACITY))
    if heads is not None:
        look |= dict(customdata=[list(map(int, heads[i])) for i in at])
    return frame.markers(values[at], np.full(len(at), -_DRAWS * most / 2), hovers, **look)


def _quantile(share: float, value: float, most: int, dark: bool) -> Part:
    hover = f"{_name(share)} of the draws: <b>{theme.format_number(value)}</b>"
    line = dict(width=2, color=theme.accent(dark), dash="solid" if share == 0.5 else "dash")
    heights = np.linspace(-_DRAWS * most, most, 12)
    return frame.markers([value] * 12, heights, hover, line=line) | dict(mode="lines")


def _name_above(i: int, share: float, value: float, dark: bool) -> Part:
    """Return a quantile's name over its line; every second one is higher up."""
    side = "right" if share < 0.5 else "left"
    position = dict(yref="paper", yanchor="bottom", xanchor=side, yshift=13 * (i % 2))
    return frame.annotation(_name(share), value, 1, theme.accent(dark), 11, **position)


def _name(share: float) -> str:
    return "median" if share == 0.5 else f"{theme.format_number(100 * share)} %"


def _counts(most: int) -> list[int]:
    """Return a few whole numbers from 0 to the largest count: below 0 there is nothing to count."""
    step = max(1, round(most / 4))
    if step > 10:
        step = 5 * round(step / 5)
    return list(range(0, most + 1, step))
