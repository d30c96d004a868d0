"""Tables of numbers as coloured cells: axes that name every cell, hatching, cells to click."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_viz.plots.frame import Limits
from mha_viz.web import theme

MAX_CLICKABLE = 21_000  # cells; 144 x 144 are 20,736
PHONE = 300  # pixels that a phone leaves for all columns: their labels fit this width
_TICK_LABEL = 14  # characters of a label beside the axis; hover shows all of it
BAR = 44  # height of the colour bar


def ends_of(
    values: NDArray[np.float64], diverging: bool, limits: Limits | None
) -> tuple[float, float]:
    """Lowest and highest value of a scale: signed numbers symmetric around 0, else their range."""
    if limits is not None:
        low, high = (float(end) for end in limits)
    elif diverging:
        high = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
        low = -high
    else:
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def colours_of(
    values: NDArray[np.float64], diverging: bool, limits: Limits | None, dark: bool
) -> dict[str, Any]:
    """zmin, zmax and colorscale of plotly, between `ends_of` the numbers."""
    low, high = ends_of(values, diverging, limits)
    scale = theme.diverging(dark) if diverging else theme.sequential(dark)
    return dict(zmin=low, zmax=high, colorscale=theme.stops(scale))


def colour_bar(dark: bool, **more: Any) -> dict[str, Any]:
    """A colour bar between the title and the picture; `more` replaces what is not wanted.

    Neither a y of 1 nor a title of its own: plotly would then shift the figure's title upwards.
    """
    return (
        dict(
            orientation="h",
            thickness=9,
            outlinewidth=0,
            len=210,
            lenmode="pixels",
            nticks=5,
            x=0,
            xref="paper",
            xanchor="left",
            xpad=0,
            y=0.9999,
            yref="paper",
            yanchor="bottom",
            ypad=6,
            ticks="outside",
            ticklen=3,
            tickcolor=theme.muted(dark),
            tickfont=dict(size=11, color=theme.muted(dark)),
            ticklabelposition="outside bottom",
        )
        | more
    )


def gap(cell: float) -> float:
    """Hairlines between cells, only where cells are large enough to spare them."""
    return 1.0 if cell >= 12 else 0.0


def cell_axes(
    row_names: Sequence[str],
    column_names: Sequence[str],
    cell: float,
    wide: float,
    *,
    marks: tuple[list[float], list[str]] | None = None,
    domain: tuple[float, float] = (0.0, 1.0),
) -> dict[str, Any]:
    """Two pairs of axes in the same place, for names that plotly may show as they are.

    x and y belong to the cells and know the name of each, which is what hover reads. x2 and y2
    draw the labels that fit cells `cell` pixels high and `wide` pixels wide, or `marks` (places
    and texts) on both. Numbers, not categories, lie
    on them: plotly would merge two of the same name.
    """
    rows, columns = len(row_names), len(column_names)
    quiet = dict(showgrid=False, zeroline=False, showline=False, ticks="")
    every = dict(quiet, showticklabels=False, tickmode="array")
    shown = dict(
        quiet, showticklabels=True, tickmode="array", automargin=True, ticklabeloverflow="allow"
    )
    across, down = marks or fitting(column_names, wide), marks or fitting(row_names, cell)
    level = marks is not None or max(len(text) for text in across[1]) * 6.5 <= wide
    return dict(
        xaxis=dict(
            every,
            tickvals=list(range(columns)),
            ticktext=list(column_names),
            range=[-0.5, columns - 0.5],
        ),
        yaxis=dict(
            every,
            tickvals=list(range(rows)),
            ticktext=list(row_names),
            range=[rows - 0.5, -0.5],
            domain=domain,
        ),
        xaxis2=dict(
            shown,
            tickvals=across[0],
            ticktext=across[1],
            overlaying="x",
            matches="x",
            anchor="y",
            side="bottom",
            tickfont=dict(size=_font(wide)),
            tickangle=0 if level else -90,
        ),
        yaxis2=dict(
            shown,
            tickvals=down[0],
            ticktext=down[1],
            overlaying="y",
            matches="y",
            side="left",
            anchor="x",
            tickfont=dict(size=_font(cell)),
        ),
    )


def on_label_axes() -> dict[str, Any]:
    """Without a trace on them, x2 and y2 are not drawn."""
    return dict(x=[None], y=[None], xaxis="x2", yaxis="y2", hoverinfo="skip")


def fitting(names: Sequence[str], cell: float) -> tuple[list[float], list[str]]:
    """Places and texts of the labels that fit: every one, or every second, fifth ..."""
    step = max(1, math.ceil((_font(cell) + 1.5) / cell))
    places = list(range(0, len(names), step))
    return [float(i) for i in places], [_short(names[i]) for i in places]


def _short(name: str) -> str:
    """Names are already fit for plotly: one with an entity in it is not cut inside of it."""
    return name if len(name) <= _TICK_LABEL or "&" in name else name[: _TICK_LABEL - 1] + "…"


def _font(cell: float) -> float:
    return min(12.0, max(9.0, cell * 0.72))


def missing_ground(rows: int, columns: int, dark: bool) -> dict[str, Any]:
    """A grey ground that shows where a cell has no number."""
    return dict(
        type="rect",
        xref="x",
        yref="y",
        x0=-0.5,
        x1=columns - 0.5,
        y0=-0.5,
        y1=rows - 0.5,
        layer="below",
        line=dict(width=0),
        fillcolor=theme.missing(dark),
    )


def hatching(where: NDArray[np.bool_], dark: bool, *, falling: bool = False) -> dict[str, Any]:
    """A diagonal line through each of these cells, in one trace."""
    rows, columns = np.nonzero(where)
    half = np.array([-0.5, 0.5, np.nan], dtype=np.float32)
    tilt = half if falling else -half
    return dict(
        x=(columns[:, None] + half).ravel().astype(np.float32),
        y=(rows[:, None] + tilt).ravel().astype(np.float32),
        mode="lines",
        line=dict(width=1, color=theme.hatch(dark)),
        hoverinfo="skip",
    )


def boxes(corners: Sequence[tuple[float, float, float, float]]) -> dict[str, Any]:
    """Rectangles (x0, y0, x1, y1) as one line trace."""
    x = [v for x0, _, x1, _ in corners for v in (x0, x1, x1, x0, x0, None)]
    y = [v for _, y0, _, y1 in corners for v in (y0, y0, y1, y1, y0, None)]
    return dict(x=x, y=y, mode="lines", hoverinfo="skip", cliponaxis=False)


def clickable(
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    customdata: NDArray[np.intp],
    values: NDArray[np.float64] | None,
    hovertemplate: str,
) -> dict[str, Any]:
    """Invisible points over cells: plotly's cells cannot be selected by a click, points can.

    They carry the hover, too, since they lie in front: %{y}, %{x} and %{marker.color} are row,
    column and value. Only one of them is put into the page (maxdisplayed), all of them answer.
    customdata, (cell, 2), is an array: twenty thousand lists would take longer than all the rest.
    """
    colour = {} if values is None else dict(color=values.astype(np.float32), showscale=False)
    still = dict(marker=dict(opacity=0))
    return dict(
        x=columns.astype(np.int16),
        y=rows.astype(np.int16),
        mode="markers",
        customdata=customdata.astype(np.int16),
        marker=dict(opacity=0, size=8, maxdisplayed=1, **colour),
        hovertemplate=hovertemplate,
        selected=still,
        unselected=still,
    )
