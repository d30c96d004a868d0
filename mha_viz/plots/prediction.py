"""Predictions before and after a change: the likeliest tokens, and every token."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import cells, frame
from mha_viz.plots.frame import Numbers, Part
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

    The likeliest before is on top. The change is in percentage points. Hover shows both
    probabilities. A probability that is not defined (NaN) has no bar, and its row says so. `target`
    is the index of a token to mark.
    """
    first = frame.as_numbers(before, 1, "before (token)")
    second = frame.as_numbers(after, 1, "after (token)")
    if not len(first) == len(second) == len(labels):
        raise ShapeError(
            f"One label, one before, one after each: got {len(labels)}, {first.shape}, "
            f"{second.shape}."
        )
    if target is not None and not 0 <= target < len(labels):
        raise ArgumentError(f"There is no token {target} among {len(labels)}.")
    order = np.argsort(-first, kind="stable")  # NaN comes last
    first, second = first[order], second[order]
    tokens = [labels[i] for i in order.tolist()]
    shown_names = [plotly_text(clean(name, 40)) for name in names]
    hovers = [
        f"<b>{plotly_text(clean(token, 60))}</b>"
        + "".join(
            f"<br>{name}: <b>{frame.quantity(value, '')}</b>"
            for name, value in zip(shown_names, pair, strict=True)
        )
        + f"<br>change {_percentage_points(pair[1] - pair[0])}"
        for token, *pair in zip(tokens, first.tolist(), second.tolist(), strict=True)
    ]
    look = dict(type="bar", orientation="h", width=0.34, textposition="none")
    look |= dict(hovertext=hovers, hoverinfo="text")
    colours = (theme.muted(dark), theme.qualitative(dark)[0])
    traces: list[Part] = []
    for i, values in enumerate((first, second)):
        marker = dict(color=colours[i], line=dict(width=0))
        y = np.arange(len(values)) + (-0.19, 0.19)[i]
        traces.append(look | dict(x=values, y=y, name=shown_names[i], marker=marker))
    ends = np.nan_to_num(np.fmax(first, second))
    changes = [f" {_percentage_points(change)}" for change in (second - first).tolist()]
    beside = frame.text_trace(ends, np.arange(len(ends)), changes, "middle right", 12, dark)
    traces.append(beside | dict(showlegend=False))
    rows = [plotly_text(clean(token, _TOKEN)) for token in tokens]
    notes = ["pp: percentage points."]
    if target is not None:
        at = order.tolist().index(target)
        rows[at] = f'<b style="color:{theme.accent(dark)}">▸ {rows[at]}</b>'
        notes.append(f"▸ The tracked token: {clean(labels[target], 30)}")
    highest = float(np.nanmax(np.r_[first, second], initial=0.0)) or 1.0
    return _bar_figure(traces, rows, highest, notes, dark)


def _percentage_points(change: float) -> str:
    """Return a change of probability as it is written: "−4.2 pp"."""
    if change != change:
        return "not defined"
    points = 100 * change
    text = f"{points:+.1f}" if abs(points) >= 0.05 or points == 0 else f"{points:+.1g}"
    return theme.true_minus(text if points else "0") + " pp"


def _bar_figure(
    traces: list[Part], rows: list[str], highest: float, notes: list[str], dark: bool
) -> go.Figure:
    quiet = dict(zeroline=False, fixedrange=True, ticklabeloverflow="allow")  # else it takes long
    names = dict(tickvals=list(range(len(rows))), ticktext=rows, tickfont=dict(size=12.5))
    names |= dict(ticks="outside", ticklen=5, tickcolor="rgba(0,0,0,0)")
    title = dict(text="probability", font=dict(size=12), standoff=4)
    across = dict(quiet, range=[0, 1.3 * highest], tickformat=".3~p", nticks=5, title=title)
    down = quiet | names | dict(range=[len(rows) - 0.45, -0.55], showgrid=False, showline=False)
    layout = dict(barmode="overlay", xaxis=across, yaxis=down)
    inner, border = _ROW * len(rows) + 78, frame.Border(right_side=8, below=70, legend=True)
    return frame.headed_figure(traces, dark, "", notes, inner, layout, border)


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
    defined (NaN, None: a first token has no loss) is grey and hatched. Hover shows the token, its
    position and the exact number. customdata of each cell is [position].
    """
    values = frame.as_numbers(change, 1, "change (token)")
    texts = clean_all(labels, len(values), "tokens")
    shown = [clean(text, _LABEL) for text in texts]
    lines, starts, widths = _break_lines([_label_width(text) for text in shown])
    missing = np.isnan(values)
    scale = cells.scale_colours(values, True, None, dark)
    bars = dict(type="bar", orientation="h", width=0.86, hoverinfo="text", **frame.keep_on_click(1))
    bars |= dict(textposition="inside", textangle=0, insidetextanchor="middle")
    bars |= dict(constraintext="inside", cliponaxis=False)
    traces: list[Part] = []
    for where in (~missing, missing):
        at = np.flatnonzero(where).tolist()
        letters = dict(size=_FONT, color=[_text_colour(values[i], scale, dark) for i in at])
        trace: Part = dict(x=widths[where] - 0.3, base=starts[where], y=lines[where])
        trace |= dict(text=[plotly_text(shown[i]) for i in at], textfont=letters)
        trace |= dict(hovertext=[_hover(texts[i], i, values[i], unit) for i in at])
        trace |= dict(customdata=[[i] for i in at], marker=_cell_look(values[where], scale, dark))
        traces += [bars | trace] if at else []
    notes = []
    if missing.any():
        notes.append(f"Hatched: {int(missing.sum()):,} of {len(values):,} tokens without a value.")
    count = int(lines[-1]) + 1
    down = frame.HIDDEN | dict(range=[count - 0.5, -0.5])
    layout = dict(barmode="overlay", xaxis=frame.HIDDEN | dict(range=[0, _LINE]), yaxis=down)
    title, inner = frame.with_unit(title, unit), _CELL * count + 8
    border = frame.Border(above=cells.BAR, left_side=6, right_side=6)
    return frame.headed_figure(traces, dark, title, notes, inner, layout, border)


def _label_width(text: str) -> float:
    """Estimate how many letters wide a label is: those of East Asia take two, marks take none."""
    drawn = [char for char in text if not unicodedata.combining(char)]
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in drawn)
    return max(len(drawn) + 0.9 * wide, 1.4) + _PAD


def _break_lines(widths: Sequence[float]) -> tuple[NDArray[np.intp], Numbers, Numbers]:
    """Return line, start and width of each cell; a line ends where the next would not fit."""
    line, x = 0, 0.0
    lines, starts = [], []
    for width in widths:
        if x and x + width > _LINE:
            line, x = line + 1, 0.0
        lines.append(line)
        starts.append(x)
        x += width
    return np.array(lines, dtype=np.intp), np.array(starts), np.array(widths)


def _cell_look(values: Numbers, scale: Part, dark: bool) -> Part:
    look: Part = dict(opacity=1, line=dict(width=1, color=theme.gridline(dark)))
    if np.isnan(values).any():
        hatch = dict(shape="/", fgcolor=theme.hatch(dark), size=7, solidity=0.12)
        return look | dict(color=theme.missing(dark), pattern=hatch)
    look |= dict(cmin=scale["zmin"], cmax=scale["zmax"], colorscale=scale["colorscale"])
    look |= dict(color=values.astype(np.float32), colorbar=scale["colorbar"], showscale=True)
    return look


def _text_colour(value: float, scale: Part, dark: bool) -> str:
    """Return dark letters for a light cell, light ones for a dark cell."""
    if value != value:
        return theme.ink(dark)
    share = (value - scale["zmin"]) / (scale["zmax"] - scale["zmin"])
    red, green, blue = theme.rgb(theme.mix(theme.diverging(dark), float(share)))
    return theme.ink.light if 0.3 * red + 0.59 * green + 0.11 * blue > 140 else theme.ink.dark


def _hover(text: str, position: int, value: float, unit: str) -> str:
    sign = "+" if value > 0 else ""
    return f"{plotly_text(text)} · token {position}<br><b>{sign}{frame.quantity(value, unit)}</b>"
