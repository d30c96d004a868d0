"""Figures of one row per metric, and the card of a head among all heads made of them."""

from collections.abc import Mapping
from typing import Any, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import frame
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

TICK = 10  # pixels
Text = tuple[float, float, str, str]  # x, y, text, and on which side of the place it stands
SIDES = (-0.22, 1.22)  # of the axis: room for the numbers at both ends of a line from 0 to 1
_ROW = 38  # pixels
_LABEL = 0.42  # how far above its line a row's text is, in rows
_TITLE_LETTERS = 28
_Dot = tuple[float, float, list[int], str]  # x, y, [layer, head], hover
_Tick = tuple[float, float, str, str]  # x, y, symbol, hover


def report_card(
    values: Mapping[str, Num[np.ndarray | Tensor, "layer head"]],
    titles: Mapping[str, str],
    units: Mapping[str, str],
    selected: tuple[int, int],
    *,
    baselines: Mapping[str, Mapping[str, SupportsFloat]] | None = None,
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
    texts: list[Text] = []
    ticks: list[_Tick] = []
    for row, (key, table) in enumerate(tables.items()):
        scale = _Scale(table)
        name, unit = titles.get(key, key), units.get(key, "")
        dots += _dots(table, scale, row, name, unit)
        value = frame.quantity(float(table[layer, head]), unit)
        value = f'<b style="color:{theme.accent(dark)}">{value}</b>'
        missing = int(np.isnan(table).sum())
        ends = (scale.low, scale.high) if missing < table.size else None
        aside = f"{missing} of {table.size} not defined" if missing else ""
        texts += row_texts(row, name, value, ends, aside, dark)
        ticks += _row_ticks(scale, row, (baselines or {}).get(key, {}), unit)
    small = dict(size=6, color=theme.qualitative(dark)[0], opacity=0.4, line=dict(width=0))
    chosen = [dot for dot in dots if dot[2] == [layer, head]]
    traces = [
        row_lines(len(tables), dark),
        dict(_markers(dots), marker=small, **frame.keep_on_click(0.4)),
        _baselines(ticks, dark),
        dict(_markers(chosen), marker=frame.chosen_marker(dark, 14), **frame.keep_on_click(1)),
        text_trace(texts, dark),
    ]
    notes = ["Small dots: all heads, each row on its own scale."]
    notes += ["Upright ticks: baselines; arrows: beyond all heads."] if ticks else []
    return row_figure(traces, len(tables), head_name(layer, head), notes, dark)


class _Scale:
    """From a metric's values to places in [0, 1]; all in the middle where they are all equal."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        known = table[np.isfinite(table)]
        ends = (known.min(), known.max()) if known.size else (np.nan, np.nan)
        self.low, self.high = map(float, ends)

    def place(self, value: Any) -> Any:
        if self.high == self.low:
            return value * 0.0 + 0.5
        return (value - self.low) / (self.high - self.low)


def _dots(table: NDArray[np.float64], scale: _Scale, row: int, name: str, unit: str) -> list[_Dot]:
    """Return a dot for each head that has a value; hover shows its rank from the top."""
    layers, heads = np.nonzero(np.isfinite(table))
    known = table[layers, heads]
    ranks = len(known) + 1 - np.searchsorted(np.sort(known), known, side="right")
    # One height for all dots of a layer, the first layer on top: fewer hide each other.
    heights = row + 0.13 * (2 * (layers + 0.5) / len(table) - 1)
    columns = (scale.place(known), heights, layers, heads, known, ranks)
    metric = plotly_text(clean(name, 60))
    return [
        (
            x,
            y,
            [layer, head],
            f"{head_name(layer, head)}: {metric}<br><b>{frame.quantity(value, unit)}</b>"
            f"<br>{rank} of {len(known)} from the top",
        )
        for x, y, layer, head, value, rank in zip(*map(np.ndarray.tolist, columns), strict=True)
    ]


def _markers(dots: list[_Dot]) -> dict[str, Any]:
    x, y, where, texts = zip(*dots, strict=True) if dots else ((), (), (), ())
    across, down = (np.array(values, np.float32) for values in (x, y))
    return frame.markers(across, down, list(texts), customdata=list(where))


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


def _baselines(ticks: list[_Tick], dark: bool) -> dict[str, Any]:
    # a tick reaches 0.7 of its size up: less than the row's text is above its line
    x, y, symbols, hovers = map(list, zip(*ticks, strict=True)) if ticks else ([], [], [], [])
    upright = [symbol.startswith("line") for symbol in symbols]
    ink, sizes = theme.ink(dark), [TICK if line else 9 for line in upright]
    edge = dict(width=[2.5 if line else 0 for line in upright], color=ink)
    look = dict(symbol=symbols, size=sizes, color=ink, opacity=1, line=edge)
    return frame.markers(x, y, hovers, marker=look, **frame.keep_on_click(1))


def row_lines(rows: int, dark: bool) -> dict[str, Any]:
    """Return a thin line below the dots of each row."""
    across, down = np.tile([0.0, 1.0, np.nan], rows), np.repeat(np.arange(rows, dtype=float), 3)
    return frame.plain_lines(across, down, 1, theme.gridline(dark))


def row_texts(
    row: int, name: str, value: str, ends: tuple[float, float] | None, aside: str, dark: bool
) -> list[Text]:
    """Return the texts of a row: its name, an aside, its value and both ends of its line.

    Rows count from 0 at the top; `value` and `aside` are fit for plotly; `ends` None writes none.
    """
    small = f'<span style="font-size:10.5px;color:{theme.muted(dark)}">'
    label = plotly_text(clean(name, _TITLE_LETTERS))
    if aside:
        label += f" {small}{aside}</span>"
    left, right = SIDES
    height = row - _LABEL
    texts = [(left, height, label, "middle right"), (right, height, value, "middle left")]
    if ends is not None:
        # From the figure's edges inwards: however narrow it is, no digit is cut off.
        texts.append((left, float(row), f"{small}{ends[0]:.3g}</span>", "middle right"))
        texts.append((right, float(row), f"{small}{ends[1]:.3g}</span>", "middle left"))
    return texts


def text_trace(texts: list[Text], dark: bool) -> dict[str, Any]:
    """Return all texts beside and above the lines, as one trace."""
    x, y, written, sides = map(list, zip(*texts, strict=True))
    return frame.text_trace(x, y, written, sides, 12.5, dark)


def row_figure(
    traces: list[dict[str, Any]],
    n_rows: int,
    title: str,
    notes: list[str],
    dark: bool,
    named: bool = False,
) -> go.Figure:
    """Return the figure of all these; `named` adds a legend below."""
    down = frame.HIDDEN | dict(range=[n_rows - 0.65, -0.65])
    layout = dict(xaxis=frame.HIDDEN | dict(range=list(SIDES)), yaxis=down)
    inner, margins = _ROW * n_rows + (44 if named else 10), frame.Margins(left=6, right=6, below=6)
    return frame.headed_figure(traces, dark, title, notes, inner, layout, margins, named=named)
