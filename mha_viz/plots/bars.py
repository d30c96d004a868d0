"""A number as a sum of parts: parts stacked place by place, rows of signed bars, a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ShapeError
from mha_viz.plots import cells
from mha_viz.plots.frame import (
    as_numbers,
    axis_title,
    build_figure,
    headed_figure,
    legend,
    named_axis,
    quantity,
    with_unit,
)
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
    parts = {name: as_numbers(values, 1, name) for name, values in series.items()}
    if not parts or any(len(values) != n for values in parts.values()):
        raise ShapeError(f"each series must have {n} numbers, one per place.")
    names = clean_all(places, n, "places")
    hovers = [hover_text(name) for name in names]
    at = np.arange(n)
    number = f"<b>%{{y:+.4~g}}</b> {hover_text(unit)}<extra></extra>"
    traces: list[dict[str, Any]] = [
        dict(
            type="bar",
            x=at,
            y=values,
            name=plotly_text(clean(name, 30)),
            customdata=hovers,
            hovertemplate=f"%{{customdata}}, {hover_text(clean(name, 30))}<br>{number}",
            marker=dict(color=theme.qualitative(dark)[i % 8], line=dict(width=0)),
        )
        for i, (name, values) in enumerate(parts.items())
    ]
    edge = dict(width=2, color=theme.paper(dark))
    traces.append(
        dict(
            x=at,
            y=np.sum(list(parts.values()), axis=0),
            name="together",
            mode="markers",
            customdata=hovers,
            hovertemplate=f"%{{customdata}}, together<br>{number}",
            marker=dict(symbol="diamond", size=11, color=theme.ink(dark), line=edge),
        )
    )
    step = -(-n // 16)  # names that fit a phone
    layout = dict(
        barmode="relative",
        bargap=0.3,
        xaxis=named_axis(
            at[::step].tolist(),
            [clean(name, 8) for name in names[::step]],
            (-0.6, n - 0.4),
            tickangle=0 if n <= 8 else -60,
            fixedrange=True,
        ),
        yaxis=dict(zeroline=True, nticks=7, fixedrange=True, title=axis_title(unit)),
    )
    return headed_figure(
        traces, dark, title, [], 330, layout, above=6, sides=(8, 8), below=74, named=True
    )


def signed_rows(
    labels: Sequence[str],
    values: Num[np.ndarray | Tensor, " row"],
    unit: str = "",
    *,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw a bar for each signed number (row,), with its label before it."""
    numbers = as_numbers(values, 1, "values (row)")
    texts = clean_all(labels, len(numbers), "rows")
    scale = theme.diverging(dark)
    bars = dict(
        type="bar",
        x=numbers,
        y=np.arange(len(numbers)),
        orientation="h",
        width=0.72,
        hovertext=[
            f"<b>{plotly_text(text)}</b><br>{quantity(value, unit)}"
            for text, value in zip(texts, numbers.tolist(), strict=True)
        ],
        hoverinfo="text",
        marker=dict(
            color=[scale[-2] if value > 0 else scale[1] for value in numbers.tolist()],
            line=dict(width=0),
        ),
    )
    layout = dict(
        xaxis=dict(zeroline=True, nticks=5, fixedrange=True, title=axis_title(unit)),
        yaxis=named_axis(
            range(len(numbers)),
            [clean(text, _NAME) for text in texts],
            (len(numbers) - 0.4, -0.6),
            **dict(fixedrange=True, automargin=True, tickfont=dict(size=12)),
        ),
    )
    inner = _ROW * len(numbers) + 56
    return headed_figure([bars], dark, title, [], inner, layout, above=4, below=48)


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
    values = as_numbers(matrix, 2, "matrix (row, column)")
    rows, columns = values.shape
    down = clean_all(row_names, rows, "rows")
    across = clean_all(column_names, columns, "columns")
    cell = min(side / max(rows, columns), 56.0)
    hover = dict(
        hovertemplate=f"%{{y}} · %{{x}}<br><b>%{{z:+.4~g}}</b> {hover_text(unit)}<extra></extra>",
        hoverongaps=False,
    )
    colours = cells.scale_colours(values, True, None, dark) | dict(colorbar=cells.colour_bar(dark))
    traces = [cells.heatmap_cells(values, cell, colours, hover)]
    return cells.square_cells(traces, (down, across), cell, with_unit(title, unit), [], dark)


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
    traces: list[dict[str, Any]] = []
    for i, (name, values) in enumerate(series.items()):
        traces.append(
            dict(
                type="bar",
                x=np.arange(n),
                y=np.asarray(values, dtype=np.float32),
                name=plotly_text(clean(name)),
                customdata=[hover_text(label) for label in names],
                marker=dict(
                    color=theme.qualitative(dark)[i % 8], pattern=dict(shape=["", "/"][i % 2])
                ),
                hovertemplate=f"{hover_text(clean(name))}<br>%{{customdata}} (%{{x}}): "
                "<b>%{y:.4~g}</b><extra></extra>",
            )
        )
    step = max(1, -(-n // _NAMED))
    return build_figure(
        traces,
        dark,
        dict(
            barmode="group",
            bargap=0.25,
            height=330,
            hovermode="closest",
            margin=dict(l=8, r=8, t=12, b=46),
            legend=legend(dark),
            xaxis=named_axis(range(0, n, step), names[::step], (-0.7, n - 0.3), tickangle=-60),
            yaxis=dict(title=dict(text=plotly_text(unit), font=dict(size=12)), rangemode="tozero"),
        ),
    )
