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
from mha_viz.plots.frame import as_numbers, axis_title, headed_figure, over, quantity, with_unit
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
    """Signed parts stacked above and below 0, a pile for each place, with a mark at their sum.

    Args:
        series: what parts are called -> (place,), 0 where a place has none.
        places: what places are called, from the left; any text.
        unit: what the parts are counted in.
        title: what they are parts of.
        dark: colours for a dark page.

    Raises:
        ShapeError: a series that does not have one number per place, or none at all.
    """
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
        xaxis=dict(
            tickvals=at[::step].tolist(),
            ticktext=[plotly_text(clean(name, 8)) for name in names[::step]],
            tickangle=0 if n <= 8 else -60,
            range=[-0.6, n - 0.4],
            showgrid=False,
            zeroline=False,
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
    """A bar in each row, to the right of 0 or to the left, with its label before it.

    Args:
        labels: one per row, from the top; any text, also twice the same; never read as markup.
        values: (row,), signed numbers.
        unit: what they are counted in.
        title: what they are.
        dark: colours for a dark page.

    Raises:
        ShapeError: not one label per number, or no row.
    """
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
        yaxis=dict(
            range=[len(numbers) - 0.4, -0.6],
            tickvals=list(range(len(numbers))),
            ticktext=[plotly_text(clean(text, _NAME)) for text in texts],
            showgrid=False,
            zeroline=False,
            fixedrange=True,
            automargin=True,
            tickfont=dict(size=12),
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
    """Signed parts that have a row and a column each, as cells of two hues around 0.

    Args:
        matrix: (row, column), parts of one number.
        row_names: from the top; any text, never read as markup.
        column_names: from the left; likewise.
        unit: what the parts are counted in.
        title: what they are parts of.
        side: largest side of the square of cells, in pixels.
        dark: colours for a dark page.

    Raises:
        ShapeError: no matrix, or names that do not fit it.
    """
    values = as_numbers(matrix, 2, "matrix (row, column)")
    rows, columns = values.shape
    down = clean_all(row_names, rows, "rows")
    across = clean_all(column_names, columns, "columns")
    cell = min(side / max(rows, columns), 56.0)
    wide = min(cell, cells.PHONE / columns)
    hover = dict(
        hovertemplate=f"%{{y}} · %{{x}}<br><b>%{{z:+.4~g}}</b> {hover_text(unit)}<extra></extra>",
        hoverongaps=False,
    )
    colours = cells.colours_of(values, True, None, dark) | dict(colorbar=cells.colour_bar(dark))
    traces = [cells.coloured(values, cell, colours, hover), cells.on_label_axes()]
    layout = dict(
        shapes=[cells.missing_ground(rows, columns, dark)],
        **over(cells.cell_axes(down, across, cell, wide), cells.SQUARE),
    )
    figure = headed_figure(
        traces,
        dark,
        with_unit(title, unit),
        [],
        cell * rows + 6.3 * cells.widest(cells.fitting(across, wide)) + 22,
        layout,
        above=cells.BAR,
        below=12,
        drag="zoom",
    )
    return cells.narrowing(figure, cell, cells.fitting(down, cell), (rows, columns))
