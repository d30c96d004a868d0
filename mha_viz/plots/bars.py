"""A number as a sum of parts: parts stacked place by place, rows of signed bars, a matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ShapeError
from mha_viz.plots import cells, frame
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, hover_text, plotly_text

_ROW = 20  # pixels that a signed bar takes
_NAME = 15  # letters of a label beside its bar, on a phone; hover shows more


def stacked_shares(
    series: Mapping[str, Num[np.ndarray | Tensor, " place"]],
    places: Sequence[str],
    unit: str = "",
    *,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw signed parts (place,) stacked above and below 0 for each place, and their sum."""
    n = len(places)
    parts = {name: frame.as_numbers(values, 1, name) for name, values in series.items()}
    if not parts or any(len(values) != n for values in parts.values()):
        raise ShapeError(f"each series must have {n} numbers, one per place.")
    hovers = [hover_text(name) for name in clean_all(places, n, "places")]
    at = np.arange(n)

    def trace(name: str, values: Any, **more: Any) -> dict[str, Any]:
        hover = f"%{{customdata}}, {hover_text(name)}<br><b>%{{y:+.4~g}}</b> {hover_text(unit)}"
        text = dict(customdata=hovers, hovertemplate=f"{hover}<extra></extra>")
        return dict(x=at, y=values, name=plotly_text(name), **text, **more)

    traces = []
    for i, (name, values) in enumerate(parts.items()):
        look: dict[str, Any] = dict(color=theme.qualitative(dark)[i % 8], line=dict(width=0))
        traces.append(trace(clean(name, 30), values, type="bar", marker=look))
    edge = dict(width=2, color=theme.paper(dark))
    look = dict(symbol="diamond", size=11, color=theme.ink(dark), line=edge)
    sums = np.sum(list(parts.values()), axis=0)
    traces.append(trace("together", sums, mode="markers", marker=look))
    step = -(-n // 16)  # names that fit a phone
    turned = dict(tickangle=0 if n <= 8 else -60, fixedrange=True)
    shown = [clean(name, 8) for name in places[::step]]
    layout = dict(
        barmode="relative",
        bargap=0.3,
        xaxis=frame.named_axis(at[::step].tolist(), shown, (-0.6, n - 0.4), **turned),
        yaxis=dict(zeroline=True, nticks=7, fixedrange=True, title=frame.axis_title(unit)),
    )
    margins = frame.Margins(above=6, right=8, below=74)
    return frame.headed_figure(traces, dark, title, [], 330, layout, margins, named=True)


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
    bars = dict(
        type="bar",
        x=numbers,
        y=np.arange(len(numbers)),
        orientation="h",
        width=0.72,
        hovertext=[
            f"<b>{plotly_text(text)}</b><br>{frame.quantity(value, unit)}"
            for text, value in zip(texts, numbers.tolist(), strict=True)
        ],
        hoverinfo="text",
        marker=dict(color=colours, line=dict(width=0)),
    )
    shown = [clean(text, _NAME) for text in texts]
    look = dict(fixedrange=True, automargin=True, tickfont=dict(size=12))
    layout = dict(
        xaxis=dict(zeroline=True, nticks=5, fixedrange=True, title=frame.axis_title(unit)),
        yaxis=frame.named_axis(range(len(numbers)), shown, (len(numbers) - 0.4, -0.6), **look),
    )
    inner, margins = _ROW * len(numbers) + 56, frame.Margins(above=4, below=48)
    return frame.headed_figure([bars], dark, title, [], inner, layout, margins)


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
    hover = f"%{{y}} · %{{x}}<br><b>%{{z:+.4~g}}</b> {hover_text(unit)}<extra></extra>"
    colours = cells.scale_colours(values, True, None, dark)
    traces = [cells.heatmap_cells(values, cell, colours, hover)]
    return cells.square_cells_figure(
        traces, (down, across), cell, frame.with_unit(title, unit), [], dark
    )


_NAMED = 60  # tokens up to which each has its name below


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
    traces: list[dict[str, Any]] = []
    for i, (name, values) in enumerate(series.items()):
        colour, pattern = theme.qualitative(dark)[i % 8], dict(shape=["", "/"][i % 2])
        hover = f"{hover_text(clean(name))}<br>%{{customdata}} (%{{x}}): <b>%{{y:.4~g}}</b>"
        trace = dict(x=np.arange(n), y=np.asarray(values, dtype=np.float32), customdata=hovers)
        trace |= dict(type="bar", name=plotly_text(clean(name)))
        trace |= dict(marker=dict(color=colour, pattern=pattern))
        traces.append(trace | dict(hovertemplate=f"{hover}<extra></extra>"))
    step = max(1, -(-n // _NAMED))
    layout = dict(
        barmode="group",
        bargap=0.25,
        height=330,
        hovermode="closest",
        margin=dict(l=8, r=8, t=12, b=46),
        legend=frame.legend(dark),
        xaxis=frame.named_axis(range(0, n, step), names[::step], (-0.7, n - 0.3), tickangle=-60),
        yaxis=dict(title=dict(text=plotly_text(unit), font=dict(size=12)), rangemode="tozero"),
    )
    return frame.build_figure(traces, dark, layout)
