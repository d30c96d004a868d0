"""One row per metric: the card of a head among all heads, and two heads among all heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import frame
from mha_viz.plots.frame import Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

_TICK = 10  # pixels
_Text = tuple[float, float, str, str]  # x, y, text, and on which side of the place it stands
_SIDES = (-0.22, 1.22)  # of the axis: room for the numbers at both ends of a line from 0 to 1
_ROW = 38  # pixels
_LABEL = 0.42  # how far above its line a row's text is, in rows
_TITLE_LETTERS = 28
REACH = 4.0  # spreads on either side of the mean; what lies beyond is drawn at the end
_Dot = tuple[float, float, str, list[int]]  # x, y, hover, [layer, head]
_Tick = tuple[float, float, str, str]  # x, y, symbol, hover


def report_card(
    values: Mapping[str, Num[np.ndarray | Tensor, "layer head"]],
    titles: Mapping[str, str],
    units: Mapping[str, str],
    selected: tuple[int, int],
    *,
    baselines: Mapping[str, Mapping[str, SupportsFloat]] | None = None,
    layer_numbers: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw one head among all heads in every metric: is it unusual?

    A row per metric, each with a scale of its own from the lowest to the highest head, whose values
    stand at its ends. All heads are small dots, the chosen one a large one with its exact value at
    the right. Baselines, by metric and name, are ticks; one that no head reaches is an arrow at the
    end that it lies beyond. Where the chosen head has no value, its row says "not defined". Hover
    shows the rank from the top. customdata of the dots is [layer, head].
    """
    if not values:
        raise ArgumentError("There is no metric to draw.")
    tables = {
        key: frame.as_numbers(table, 2, f"{key} (layer, head)") for key, table in values.items()
    }
    shape = next(iter(tables.values())).shape
    if any(table.shape != shape for table in tables.values()):
        raise ShapeError(f"All metrics must be {shape}, layers and heads.")
    layer, head = frame.check_head(selected, *shape)
    dots: list[_Dot] = []
    texts: list[_Text] = []
    ticks: list[_Tick] = []
    for row, (key, table) in enumerate(tables.items()):
        scale = _Scale(table)
        name, unit = titles.get(key, key), units.get(key, "")
        dots += _dots(table, scale, row, (name, unit), layer_numbers)
        value = frame.quantity(float(table[layer, head]), unit)
        value = f'<b style="color:{theme.accent(dark)}">{value}</b>'
        missing = int(np.isnan(table).sum())
        ends = (scale.low, scale.high) if missing < table.size else None
        aside = f"{missing} of {table.size} not defined" if missing else ""
        texts += _row_texts(row, name, value, ends, aside, dark)
        ticks += _row_ticks(scale, row, (baselines or {}).get(key, {}), unit)
    small = dict(size=6, color=theme.qualitative(dark)[0], opacity=0.4, line=dict(width=0))
    chosen = [dot for dot in dots if dot[3] == [layer, head]]
    traces = [
        _row_lines(len(tables), dark),
        _markers(dots, small) | frame.keep_on_click(0.4),
        _baselines(ticks, dark),
        _markers(chosen, frame.chosen_marker(dark, 14)) | frame.keep_on_click(1),
        _text_trace(texts, dark),
    ]
    notes = ["Small dots: all heads, each row on its own scale."]
    notes += ["Upright ticks: baselines; arrows: beyond all heads."] if ticks else []
    name = head_name(layer, head, numbers=layer_numbers)
    return _row_figure(traces, len(tables), name, notes, dark)


class _Scale:
    """From a metric's values to places in [0, 1]; all in the middle where they are all equal."""

    def __init__(self, table: Numbers) -> None:
        known = table[np.isfinite(table)]
        ends = (known.min(), known.max()) if known.size else (np.nan, np.nan)
        self.low, self.high = map(float, ends)

    def place(self, value: Any) -> Any:
        if self.high == self.low:
            return value * 0.0 + 0.5
        return (value - self.low) / (self.high - self.low)


def _dots(
    table: Numbers, scale: _Scale, row: int, metric: tuple[str, str], layer_numbers: Sequence[int]
) -> list[_Dot]:
    """Return a dot for each head that has a value; hover shows its rank from the top."""
    layers, heads = np.nonzero(np.isfinite(table))
    known = table[layers, heads]
    ranks = len(known) + 1 - np.searchsorted(np.sort(known), known, side="right")
    # One height for all dots of a layer, the first layer on top: fewer hide each other.
    heights = row + 0.13 * (2 * (layers + 0.5) / len(table) - 1)
    columns = (scale.place(known), heights, layers, heads, known, ranks)
    title, unit = plotly_text(clean(metric[0], 60)), metric[1]
    dots: list[_Dot] = []
    for x, y, layer, head, value, rank in zip(*map(np.ndarray.tolist, columns), strict=True):
        name, number = head_name(layer, head, numbers=layer_numbers), frame.quantity(value, unit)
        hover = f"{name}: {title}<br><b>{number}</b><br>"
        dots.append((x, y, f"{hover}{rank} of {len(known)} from the top", [layer, head]))
    return dots


def _markers(dots: Sequence[tuple[Any, ...]], look: Part) -> Part:
    """Return dots (x, y, hover), each with what a click sends, if it sends something."""
    x, y, hovers, *sent = zip(*dots, strict=True) if dots else ((), (), ())
    across, down = (np.array(values, np.float32) for values in (x, y))
    data = dict(customdata=list(sent[0])) if sent else {}
    return frame.markers(across, down, list(hovers), marker=look, **data)


def _row_ticks(
    scale: _Scale, row: int, baselines: Mapping[str, SupportsFloat], unit: str
) -> list[_Tick]:
    """Return a tick for each baseline at its place, an arrow beyond the ends."""
    ticks: list[_Tick] = []
    for name, level in ((name, float(value)) for name, value in baselines.items()):
        if not np.isfinite(level) or not np.isfinite(scale.low):
            continue
        text = f"{plotly_text(clean(name, 40))}: <b>{frame.quantity(level, unit)}</b>"
        if level < scale.low:
            ticks.append((-0.012, float(row), "triangle-left", f"{text}<br>below every head"))
        elif level > scale.high:
            ticks.append((1.012, float(row), "triangle-right", f"{text}<br>above every head"))
        else:
            ticks.append((float(scale.place(level)), float(row), "line-ns-open", text))
    return ticks


def _baselines(ticks: list[_Tick], dark: bool) -> Part:
    # a tick reaches 0.7 of its size up: less than the row's text is above its line
    x, y, symbols, hovers = map(list, zip(*ticks, strict=True)) if ticks else ([], [], [], [])
    upright = [symbol.startswith("line") for symbol in symbols]
    ink, sizes = theme.ink(dark), [_TICK if line else 9 for line in upright]
    edge = dict(width=[2.5 if line else 0 for line in upright], color=ink)
    look = dict(symbol=symbols, size=sizes, color=ink, opacity=1, line=edge)
    return frame.markers(x, y, hovers, marker=look, **frame.keep_on_click(1))


def _row_lines(rows: int, dark: bool) -> Part:
    across, down = np.tile([0.0, 1.0, np.nan], rows), np.repeat(np.arange(rows, dtype=float), 3)
    return frame.plain_lines(across, down, 1, theme.gridline(dark))


def _row_texts(
    row: int, name: str, value: str, ends: tuple[float, float] | None, aside: str, dark: bool
) -> list[_Text]:
    """Return the texts of a row: its name, an aside, its value and both ends of its line.

    Rows count from 0 at the top; `value` and `aside` are fit for plotly; `ends` None writes none.
    """
    small = f'<span style="font-size:10.5px;color:{theme.muted(dark)}">'
    label = plotly_text(clean(name, _TITLE_LETTERS))
    if aside:
        label += f" {small}{aside}</span>"
    left, right = _SIDES
    height = row - _LABEL
    texts = [(left, height, label, "middle right"), (right, height, value, "middle left")]
    if ends is not None:
        # From the figure's edges inwards: however narrow it is, no digit is cut off.
        texts.append((left, float(row), f"{small}{ends[0]:.3g}</span>", "middle right"))
        texts.append((right, float(row), f"{small}{ends[1]:.3g}</span>", "middle left"))
    return texts


def _text_trace(texts: list[_Text], dark: bool) -> Part:
    x, y, written, sides = map(list, zip(*texts, strict=True))
    return frame.text_trace(x, y, written, sides, 12.5, dark)


def _row_figure(
    traces: list[Part], n_rows: int, title: str, notes: list[str], dark: bool, named: bool = False
) -> go.Figure:
    """Return the figure of all these; `named` adds a legend below."""
    down = frame.HIDDEN | dict(range=[n_rows - 0.65, -0.65])
    layout = dict(xaxis=frame.HIDDEN | dict(range=list(_SIDES)), yaxis=down)
    inner, margins = _ROW * n_rows + (44 if named else 10), frame.Margins(left=6, right=6, below=6)
    return frame.headed_figure(traces, dark, title, notes, inner, layout, margins, named=named)


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
        known = values[np.isfinite(values)]
        mean, spread = (float(known.mean()), float(known.std())) if known.size else (0.0, 0.0)
        name = plotly_text(clean(title, 60))
        pair = np.array([strip.a, strip.b])
        away, marked = ((each - mean) / (spread or 1.0) for each in (known, pair))
        for at, value in zip(away.tolist(), known.tolist(), strict=True):
            hover = f"{name}<br><b>{value:.3g}</b>, {at:+.3g} spreads"
            dots.append((_place(at), float(row), hover))
        for at, value, head in zip(marked.tolist(), pair.tolist(), shown, strict=True):
            told = "not defined" if np.isnan(value) else f"{value:.3g}</b>, {at:+.3g} spreads<b>"
            marks.append((_place(at), float(row), f"{head}: {name}<br><b>{told}</b>"))
        change = " → ".join("not defined" if np.isnan(v) else f"{v:.3g}" for v in pair)
        texts += _row_texts(row, title, f"<b>{change}</b>", None, plotly_text(strip.note), dark)
    small = dict(size=6, color=theme.muted(dark), opacity=0.35, line=dict(width=0))
    unnamed = dict(showlegend=False)
    traces = [_row_lines(len(strips), dark) | unnamed]
    traces.append(_markers(dots, small) | frame.keep_on_click(0.35) | unnamed)
    looks = (dict(symbol="circle-open", size=13), dict(symbol="diamond", size=11))
    for i, (head, look) in enumerate(zip(shown, looks, strict=True)):
        colour = theme.qualitative(dark)[i]
        mark = dict(look, color=colour, line=dict(width=3, color=colour))
        traces.append(_markers(marks[i::2], mark) | dict(name=head) | frame.keep_on_click(1))
    traces.append(_text_trace(texts, dark) | unnamed)
    note = f"Unit: the metric's spread over all heads; ends: {REACH:g} spreads from the mean."
    return _row_figure(traces, len(strips), "", [note], dark, named=True)


def _place(away: float) -> float:
    return float(np.clip(0.5 + away / (2 * REACH), 0.0, 1.0))
