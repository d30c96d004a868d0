"""Two heads among all heads, metric by metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.plots import frame
from mha_viz.plots.report_card import Text, row_figure, row_lines, row_texts, text_trace
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

REACH = 4.0  # spreads on either side of the mean; what lies beyond is drawn at the end


@dataclass(frozen=True)
class MetricStrip:
    """One metric of two heads, among those of all heads.

    Args:
        a: of the first head; NaN where it is not defined.
        b: of the second head.
        heads: of all heads, in any order; the mean and the spread are theirs.
        note: short, below the metric's name.
    """

    a: float
    b: float
    heads: Num[np.ndarray | Tensor, " head"]
    note: str = ""


def metric_strips(
    strips: Mapping[str, MetricStrip], *, names: tuple[str, str] = ("A", "B"), dark: bool = False
) -> go.Figure:
    """Draw a strip of all heads for each metric, by its title, with two of them marked.

    The unit of each strip is the standard deviation of the metric over all heads, its middle their
    mean, so that distances in one strip can be held against those in another. A head that is more
    than `REACH` of them away stands at the end. Where all heads have the same value, all stand in
    the middle. Values are written with three significant digits.

    Raises:
        ArgumentError: no metric.
    """
    if not strips:
        raise ArgumentError("There is no metric to draw.")
    shown = [plotly_text(clean(name, 40)) for name in names]
    dots: list[tuple[float, float, str]] = []
    marks: list[tuple[float, float, str]] = []
    texts: list[Text] = []
    for row, (title, strip) in enumerate(strips.items()):
        values = frame.as_numbers(strip.heads, 1, f"{title} (head)")
        known = values[np.isfinite(values)]
        mean, spread = (float(known.mean()), float(known.std())) if known.size else (0.0, 0.0)
        name = plotly_text(clean(title, 60))
        pair = np.array([strip.a, strip.b])
        away, marked = ((each - mean) / (spread or 1.0) for each in (known, pair))
        for at, value in zip(away.tolist(), known.tolist(), strict=True):
            dots.append(
                (_place(at), float(row), f"{name}<br><b>{value:.3g}</b>, {at:+.3g} spreads")
            )
        for at, value, head in zip(marked.tolist(), pair.tolist(), shown, strict=True):
            told = "not defined" if np.isnan(value) else f"{value:.3g}</b>, {at:+.3g} spreads<b>"
            marks.append((_place(at), float(row), f"{head}: {name}<br><b>{told}</b>"))
        change = " → ".join("not defined" if np.isnan(v) else f"{v:.3g}" for v in pair)
        texts += row_texts(row, title, f"<b>{change}</b>", None, plotly_text(strip.note), dark)
    small = dict(size=6, color=theme.muted(dark), opacity=0.35, line=dict(width=0))
    unnamed = dict(showlegend=False)
    traces = [row_lines(len(strips), dark) | unnamed]
    traces.append(_markers(dots, small) | frame.keep_on_click(0.35) | unnamed)
    looks = (dict(symbol="circle-open", size=13), dict(symbol="diamond", size=11))
    for i, (head, look) in enumerate(zip(shown, looks, strict=True)):
        colour = theme.qualitative(dark)[i]
        mark = dict(look, color=colour, line=dict(width=3, color=colour))
        traces.append(_markers(marks[i::2], mark) | dict(name=head) | frame.keep_on_click(1))
    traces.append(text_trace(texts, dark) | unnamed)
    note = f"Unit: the metric's spread over all heads; ends: {REACH:g} spreads from the mean."
    return row_figure(traces, len(strips), "", [note], dark, named=True)


def _place(away: float) -> float:
    return float(np.clip(0.5 + away / (2 * REACH), 0.0, 1.0))


def _markers(dots: Sequence[tuple[float, float, str]], look: dict[str, Any]) -> dict[str, Any]:
    x, y, hovers = zip(*dots, strict=True) if dots else ((), (), ())
    across, down = (np.array(values, np.float32) for values in (x, y))
    return frame.markers(across, down, list(hovers), marker=look)
