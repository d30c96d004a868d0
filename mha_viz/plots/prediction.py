"""Predictions before and after a change: the likeliest tokens, and every token."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells
from mha_viz.plots.frame import (
    HIDDEN,
    as_numbers,
    headed_figure,
    keep_on_click,
    quantity,
    with_unit,
)
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, plotly_text

_ROW = 34  # pixels that a token's pair of bars takes
_TOKEN = 15  # letters of a token beside its bars; hover shows more
_LINE = 56.0  # letters that a line of cells holds: on a phone, about six pixels each
_PAD = 1.8  # and what a cell adds to its label
_LABEL = 14  # letters of a label in a cell
_CELL = 32  # pixels that a line of cells takes
_FONT = 11


def before_after(
    labels: Sequence[str],
    before: Num[np.ndarray | Tensor, " token"],
    after: Num[np.ndarray | Tensor, " token"],
    *,
    names: tuple[str, str] = ("before", "after"),
    target: int | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw probabilities (token,) before and after as a pair of bars per token, with their change.

    The likeliest before is on top. The change is in percentage points. Hover tells both
    probabilities. A probability that is not defined (NaN) has no bar, and its row says so. `target`
    is the index of a token to mark.
    """
    first, second = as_numbers(before, 1, "before (token)"), as_numbers(after, 1, "after (token)")
    if not len(first) == len(second) == len(labels):
        raise ShapeError(
            f"One label, one before, one after each: got {len(labels)}, {first.shape}, "
            f"{second.shape}."
        )
    if target is not None and not 0 <= target < len(labels):
        raise ArgumentError(f"There is no token {target} among {len(labels)}.")
    order = np.argsort(-first, kind="stable")  # NaN goes to the end
    first, second = first[order], second[order]
    texts = [plotly_text(clean(labels[i], 60)) for i in order.tolist()]
    called = [plotly_text(clean(name, 40)) for name in names]
    hovers = [
        f"<b>{text}</b><br>"
        + "<br>".join(
            f"{name}: <b>{quantity(value, '')}</b>"
            for name, value in zip(called, pair, strict=True)
        )
        + f"<br>change {_points(pair[1] - pair[0])}"
        for text, *pair in zip(texts, first.tolist(), second.tolist(), strict=True)
    ]
    colours = (theme.muted(dark), theme.qualitative(dark)[0])
    traces: list[dict[str, Any]] = [
        dict(
            type="bar",
            x=values,
            y=np.arange(len(values)) + place,
            orientation="h",
            width=0.34,
            name=name,
            hovertext=hovers,
            hoverinfo="text",
            textposition="none",
            marker=dict(color=colour, line=dict(width=0)),
        )
        for values, name, colour, place in zip(
            (first, second), called, colours, (-0.19, 0.19), strict=True
        )
    ]
    traces.append(_changes(first, second, dark))
    rows = [_row_name(labels[i], i == target, dark) for i in order.tolist()]
    notes = ["pp: percentage points."]
    if target is not None:
        notes.append(f"▸ The tracked token: {clean(labels[target], 30)}")
    highest = float(np.nanmax(np.r_[first, second], initial=0.0)) or 1.0
    return _in_bars(traces, rows, highest, notes, dark)


def _points(change: float) -> str:
    """Return a change of probability as it is written: "−4.2 pp"."""
    if change != change:
        return "not defined"
    points = 100 * change
    text = f"{points:+.1f}" if abs(points) >= 0.05 or points == 0 else f"{points:+.1g}"
    return (text if points else "0").replace("-", "−") + " pp"


def _changes(before: NDArray[np.float64], after: NDArray[np.float64], dark: bool) -> dict[str, Any]:
    ends = np.nan_to_num(np.fmax(before, after))
    return dict(
        x=ends,
        y=np.arange(len(ends)),
        mode="text",
        textposition="middle right",
        hoverinfo="skip",
        text=[f" {_points(float(change))}" for change in after - before],
        cliponaxis=False,
        textfont=dict(size=12, color=theme.ink(dark)),
        showlegend=False,
    )


def _row_name(label: str, marked: bool, dark: bool) -> str:
    text = plotly_text(clean(label, _TOKEN))
    return f'<b style="color:{theme.accent(dark)}">▸ {text}</b>' if marked else text


def _in_bars(
    traces: list[dict[str, Any]], rows: list[str], highest: float, notes: list[str], dark: bool
) -> go.Figure:
    layout = dict(
        barmode="overlay",
        xaxis=dict(
            range=[0, 1.3 * highest],
            tickformat=".3~p",
            nticks=5,
            zeroline=False,
            fixedrange=True,
            ticklabeloverflow="allow",  # to look for labels that stick out takes long
            title=dict(text="probability", font=dict(size=12), standoff=4),
        ),
        yaxis=dict(
            **dict(range=[len(rows) - 0.45, -0.55], tickvals=list(range(len(rows))), ticktext=rows),
            **dict(showgrid=False, zeroline=False, showline=False, fixedrange=True),
            **dict(ticklabeloverflow="allow", ticks="outside", ticklen=5),
            **dict(tickcolor="rgba(0,0,0,0)", tickfont=dict(size=12.5)),
        ),
    )
    inner = _ROW * len(rows) + 78
    return headed_figure(traces, dark, "", notes, inner, layout, sides=(8, 8), below=70, named=True)


def token_strip(
    labels: Sequence[str],
    change: Num[np.ndarray | Tensor, " token"] | Sequence[float | None],
    title: str,
    unit: str,
    *,
    dark: bool = False,
) -> go.Figure:
    """Draw a text in reading order, each token a cell coloured by a signed number.

    Colours are symmetric around 0. Lines break after what fits a phone. A token whose number is not
    defined (NaN, None: a first token has no loss) is grey and hatched. Hover tells the token, its
    position and the exact number. customdata of each cell is [position].
    """
    values = as_numbers(change, 1, "change (token)")
    texts = clean_all(labels, len(values), "tokens")
    shown = [clean(text, _LABEL) for text in texts]
    lines, starts, widths = _flow([_width(text) for text in shown])
    missing = np.isnan(values)
    scale = cells.scale_colours(values, True, None, dark)
    traces: list[dict[str, Any]] = []
    for where in (~missing, missing):
        if not where.any():
            continue
        at = np.flatnonzero(where).tolist()
        traces.append(
            dict(
                type="bar",
                x=widths[where] - 0.3,
                base=starts[where],
                y=lines[where],
                orientation="h",
                width=0.86,
                text=[plotly_text(shown[i]) for i in at],
                textposition="inside",
                textangle=0,
                insidetextanchor="middle",
                constraintext="inside",
                cliponaxis=False,
                textfont=dict(size=_FONT, color=[_ink_on(values[i], scale, dark) for i in at]),
                hovertext=[_hover(texts[i], i, values[i], unit) for i in at],
                hoverinfo="text",
                customdata=[[i] for i in at],
                **keep_on_click(1),
                marker=_cell_look(values[where], scale, dark),
            )
        )
    notes = []
    if missing.any():
        notes.append(f"Hatched: {int(missing.sum()):,} of {len(values):,} tokens without a value.")
    count = int(lines[-1]) + 1
    layout = dict(
        barmode="overlay",
        xaxis=dict(HIDDEN, range=[0, _LINE]),
        yaxis=dict(HIDDEN, range=[count - 0.5, -0.5]),
    )
    title, inner = with_unit(title, unit), _CELL * count + 8
    return headed_figure(traces, dark, title, notes, inner, layout, above=cells.BAR, sides=(6, 6))


def _width(text: str) -> float:
    """Estimate how many letters wide a label is: those of East Asia take two, marks take none."""
    drawn = [char for char in text if not unicodedata.combining(char)]
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in drawn)
    return max(len(drawn) + 0.9 * wide, 1.4) + _PAD


def _flow(
    widths: Sequence[float],
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Return line, start and width of each cell; a line ends where the next would not fit."""
    line, place = 0, 0.0
    lines, starts = [], []
    for width in widths:
        if place and place + width > _LINE:
            line, place = line + 1, 0.0
        lines.append(line)
        starts.append(place)
        place += width
    return np.array(lines, dtype=np.intp), np.array(starts), np.array(widths)


def _cell_look(values: NDArray[np.float64], scale: dict[str, Any], dark: bool) -> dict[str, Any]:
    look: dict[str, Any] = dict(opacity=1, line=dict(width=1, color=theme.gridline(dark)))
    if np.isnan(values).any():
        hatch = dict(shape="/", fgcolor=theme.hatch(dark), size=7, solidity=0.12)
        return look | dict(color=theme.missing(dark), pattern=hatch)
    return look | dict(
        color=values.astype(np.float32),
        cmin=scale["zmin"],
        cmax=scale["zmax"],
        colorscale=scale["colorscale"],
        colorbar=cells.colour_bar(dark),
        showscale=True,
    )


def _ink_on(value: float, scale: dict[str, Any], dark: bool) -> str:
    """Return dark letters for a light cell, light ones for a dark cell."""
    if value != value:
        return theme.ink(dark)
    place = (value - scale["zmin"]) / (scale["zmax"] - scale["zmin"])
    red, green, blue = theme.rgb(theme.mix(theme.diverging(dark), float(place)))
    return theme.ink.light if 0.3 * red + 0.59 * green + 0.11 * blue > 140 else theme.ink.dark


def _hover(text: str, position: int, value: float, unit: str) -> str:
    number = quantity(value, unit)
    sign = "+" if value > 0 else ""
    return f"{plotly_text(text)} · token {position}<br><b>{sign}{number}</b>"
