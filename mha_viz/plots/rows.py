"""Figures of one row per metric: a line of text above a line from lowest to highest."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.plots.frame import headed_figure
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

Text = tuple[float, float, str, str]  # x, y, text, and on which side of the place it stands
SIDES = (-0.22, 1.22)  # of the axis: room for the numbers at both ends of a line from 0 to 1
_ROW = 38  # pixels
_LABEL = 0.42  # how far above its line a row's text is, in rows
_TITLE_LETTERS = 28


def rules(rows: int, dark: bool) -> dict[str, Any]:
    """A thin line below the dots of each row."""
    places = np.arange(rows, dtype=np.float64)
    return dict(
        x=np.tile([0.0, 1.0, np.nan], rows),
        y=np.repeat(places, 3),
        mode="lines",
        line=dict(width=1, color=theme.gridline(dark)),
        hoverinfo="skip",
    )


def row_texts(
    row: int, name: str, value: str, ends: tuple[float, float] | None, aside: str, dark: bool
) -> list[Text]:
    """A row's name, what stands beside it, its value at the right, and both ends of its line.

    Args:
        row: its number, from 0 at the top.
        name: any text.
        value: what stands at the right, fit for plotly.
        ends: the numbers at both ends of the line; None for none.
        aside: what stands behind the name, smaller, fit for plotly.
        dark: the theme.
    """
    small = f'<span style="font-size:10.5px;color:{theme.muted(dark)}">'
    label = plotly_text(clean(name, _TITLE_LETTERS))
    if aside:
        label += f" {small}{aside}</span>"
    left, right = SIDES
    texts = [
        (left, row - _LABEL, label, "middle right"),
        (right, row - _LABEL, value, "middle left"),
    ]
    if ends is not None:
        # From the figure's edges inwards: however narrow it is, no digit is cut off.
        texts.append((left, float(row), f"{small}{ends[0]:.3g}</span>", "middle right"))
        texts.append((right, float(row), f"{small}{ends[1]:.3g}</span>", "middle left"))
    return texts


def texts_of(texts: list[Text], dark: bool) -> dict[str, Any]:
    """All texts beside and above the lines, as one trace."""
    return dict(
        x=[x for x, *_ in texts],
        y=[y for _, y, *_ in texts],
        text=[text for *_, text, _ in texts],
        textposition=[side for *_, side in texts],
        mode="text",
        hoverinfo="skip",
        cliponaxis=False,
        textfont=dict(size=12.5, color=theme.ink(dark)),
    )


def in_rows(
    traces: list[dict[str, Any]],
    rows: int,
    title: str,
    notes: list[str],
    dark: bool,
    named: bool = False,
) -> go.Figure:
    """The figure of all these; `named` adds a legend below."""
    hidden = dict(visible=False, fixedrange=True)
    layout = dict(
        xaxis=dict(hidden, range=list(SIDES)), yaxis=dict(hidden, range=[rows - 0.65, -0.65])
    )
    inner = _ROW * rows + (44 if named else 10)
    return headed_figure(
        traces, dark, title, notes, inner, layout, sides=(6, 6), below=6, named=named
    )
