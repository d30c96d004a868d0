"""One row per metric: two heads among all heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.plots import frame
from mha_viz.plots.frame import Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

_Text = tuple[float, float, str, str]  # x, y, text, and on which side of the place it stands
_SIDES = (-0.22, 1.22)  # of the axis: room for the numbers at both ends of a line from 0 to 1
_ROW = 38  # pixels
_LABEL = 0.42  # how far above its line a row's text is, in rows
_TITLE_LETTERS = 28
REACH = 4.0  # spreads on either side of the mean; what lies beyond is drawn at the end


def _markers(dots: Sequence[tuple[Any, ...]], look: Part) -> Part:
    """Return dots (x, y, hover), each with what a click sends, if it sends something."""
    x, y, hovers, *sent = zip(*dots, strict=True) if dots else ((), (), ())
    across, down = (np.array(values, np.float32) for values in (x, y))
    data = dict(customdata=list(sent[0])) if sent else {}
    return frame.markers(across, down, list(hovers), marker=look, **data)


def _row_lines(rows: int, dark: bool) -> Part:
    across, down = np.tile([0.0, 1.0, np.nan], rows), np.repeat(np.arange(rows, dtype=float), 3)
    return frame.plain_lines(across, down, 1, theme.gridline(dark))


def _row_texts(row: int, name: str, value: str, aside: str, dark: bool) -> list[_Text]:
    """Return the texts of a row: its name, an aside and its value.

    Rows count from 0 at the top; `value` and `aside` are fit for plotly.
    """
    small = f'<span style="font-size:10.5px;color:{theme.muted(dark)}">'
    label = plotly_text(clean(name, _TITLE_LETTERS))
    if aside:
        label += f" {small}{aside}</span>"
    name_x, value_x = _SIDES
    height = row - _LABEL
    return [(name_x, height, label, "middle right"), (value_x, height, value, "middle left")]


def _row_figure(
    traces: list[Part], n_rows: int, title: str, notes: list[str], dark: bool, named: bool = False
) -> go.Figure:
    """Return the figure of these traces; `named` adds a legend below."""
    down = frame.HIDDEN | dict(range=[n_rows - 0.65, -0.65])
    layout = dict(xaxis=frame.HIDDEN | dict(range=list(_SIDES)), yaxis=down)
    inner, border = (
        _ROW * n_rows + (44 if named else 10),
        frame.Border(left_side=6, right_side=6, below=6, legend=named),
    )
    return frame.headed_figure(traces, dark, title, notes, inner, layout, border)


@dataclass(frozen=True)
class MetricStrip:
    """One metric of two heads, among those of all heads."""

    a: float  # of the first head; NaN where it is not defined
    b: float  # of the second head
    # of all heads, in any order; the mean and the spread are theirs
    heads: Num[np.ndarray | Tensor, " head"]
    note: str = ""  # short, below the metric's name


def metric_strips(
    strips: Mapping[str, MetricStrip], *, names: tuple[str, str] = ("A", "B"), dark: bool = False
) -> go.Figure:
    """Draw a strip of all heads for each metric, by its title, with two of them marked.

    The unit of each strip is the standard deviation of the metric over all heads, its middle their
    mean, so that distances in one strip can be held against those in another. A head that is more
    than `REACH` of them away stands at the end. Where all heads have the same value, all stand in
    the middle. Values are written with three significant digits. Raises ArgumentError: no metric.
    """
    if not strips:
        raise ArgumentError("There is no metric to draw.")
    shown = [plotly_text(clean(name, 40)) for name in names]
    dots: list[tuple[float, float, str]] = []
    marks: list[tuple[float, float, str]] = []
    texts: list[_Text] = []
    for row, (title, strip) in enumerate(strips.items()):
        values = frame.as_numbers(strip.heads, 1, f"{title} (head)")
        finite_values = values[np.isfinite(values)]
        mean, spread = (
            (float(finite_values.mean()), float(finite_values.std()))
            if finite_values.size
            else (0.0, 0.0)
        )
        name = plotly_text(clean(title, 60))
        pair = np.array([strip.a, strip.b])
        away, marked = ((each - mean) / (spread or 1.0) for each in (finite_values, pair))
        for at, value in zip(away.tolist(), finite_values.tolist(), strict=True):
            distance = theme.format_number(at, signed=True)
            hover = f"{name}<br><b>{theme.format_number(value)}</b>, {distance} spreads"
            dots.append((_x_position(at), float(row), hover))
        for at, value, head in zip(marked.tolist(), pair.tolist(), shown, strict=True):
            hover_value = theme.format_number(value)
            if np.isfinite(value):
                hover_value += f"</b>, {theme.format_number(at, signed=True)} spreads<b>"
            marks.append((_x_position(at), float(row), f"{head}: {name}<br><b>{hover_value}</b>"))
        change = " → ".join(map(theme.format_number, pair))
        texts += _row_texts(row, title, f"<b>{change}</b>", plotly_text(strip.note), dark)
    small = dict(size=6, color=theme.muted(dark), opacity=0.35, line=dict(width=0))
    unnamed = dict(showlegend=False)
    traces = [_row_lines(len(strips), dark) | unnamed]
    traces.append(_markers(dots, small) | frame.keep_on_click(0.35) | unnamed)
    marker_looks = (dict(symbol="circle-open", size=13), dict(symbol="diamond", size=11))
    for i, (head, look) in enumerate(zip(shown, marker_looks, strict=True)):
        colour = theme.qualitative(dark)[i]
        mark = dict(look, color=colour, line=dict(width=3, color=colour))
        traces.append(_markers(marks[i::2], mark) | dict(name=head) | frame.keep_on_click(1))
    x, y, written, sides = map(list, zip(*texts, strict=True))
    traces.append(frame.text_trace(x, y, written, sides, 12.5, dark) | unnamed)
    note = f"Unit: the metric's spread over all heads; ends: {REACH:g} spreads from the mean."
    return _row_figure(traces, len(strips), "", [note], dark, named=True)


def _x_position(away: float) -> float:
    return float(np.clip(0.5 + away / (2 * REACH), 0.0, 1.0))
