"""Heads as dots in two measures, with a third as colour, intervals, and other models' heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ShapeError
from mha_viz.plots import frame
from mha_viz.plots.cells import BAR, colour_bar, scale_limits
from mha_viz.plots.frame import Mask, Numbers, Part
from mha_viz.plots.head_values import head_dots
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

_OPACITY, _GREY = 0.8, 0.45
_PALEST = 3  # the first colour of the sequential scale that is seen as a dot on the page
Matrix = Num[np.ndarray | Tensor, "layer head"]


class Measure(NamedTuple):
    """A number of each head, (layer, head), and perhaps the ends of its 95 % intervals."""

    title: str
    values: Matrix
    low: Matrix | None = None
    high: Matrix | None = None


class ScatterParts(NamedTuple):
    """Parts of a scatter that few need: without them it has dots of one colour."""

    colour: Measure | None = None
    intervals: bool = False  # of both measures, as bars
    elsewhere: tuple[Matrix, Matrix] | None = None  # the same heads in grey, by both measures
    elsewhere_name: str = "random weights"
    ringed: Sequence[tuple[int, int]] = ()  # heads that are marked beside the chosen one


def head_scatter(
    x: Matrix,
    y: Matrix,
    x_title: str,
    y_title: str,
    **look: Unpack[frame.HeadLook],
) -> go.Figure:
    """Draw every head (layer, head) as a dot in two measures, as `measured_scatter` does."""
    return measured_scatter(Measure(x_title, x), Measure(y_title, y), **look)


def measured_scatter(
    x: Measure,
    y: Measure,
    parts: ScatterParts | None = None,
    *,
    selected: tuple[int, int] | None = None,
    layer_numbers: Sequence[int] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw every head as a dot in two measures.

    Above the picture stand Spearman's rank correlation, its 95 % interval and the number of heads;
    no p-value, since heads of one model are not quite independent draws. Hover names the head and
    its numbers; customdata is [layer, head], but of the grey dots. `selected` is the chosen head.
    """
    drawn = _Drawn(x, y, parts or ScatterParts(), layer_numbers, dark)
    traces = [*drawn.elsewhere(), drawn.heads()]
    edge = dict(width=2, color=theme.accent(dark))
    ring = dict(size=14, symbol="circle-open", color=edge["color"], line=edge, opacity=1)
    for heads, name, marker in (
        (drawn.parts.ringed, "selected", ring),
        ([selected] if selected is not None else [], "chosen", frame.chosen_marker(dark)),
    ):
        if heads:
            is_marked = np.zeros_like(drawn.is_finite)
            is_marked[tuple(np.transpose(heads))] = True
            traces.append(drawn.dots(is_marked & drawn.is_finite, marker) | dict(name=name))
    rho = frame.rank_correlation(
        drawn.x[drawn.is_finite], drawn.y[drawn.is_finite], "heads", interval=True
    )
    notes = [rho, frame.missing_note(drawn.is_finite)]
    colour = drawn.parts.colour
    notes += [] if colour is None else [f"Colour: {colour.title}."]
    x_axis, y_axis = (frame.value_axis(measure.title) for measure in (x, y))
    layout = dict(xaxis=x_axis, yaxis=y_axis, dragmode="zoom")
    named = drawn.parts.elsewhere is not None
    border = frame.Border(above=6 if colour is None else BAR, legend=named)
    height = 394 if colour is None else 340  # a colour bar stands above it
    return frame.headed_figure(traces, dark, "", notes, height, layout, border)


class _Drawn:
    """The numbers of a scatter's heads, and their traces."""

    def __init__(
        self, x: Measure, y: Measure, parts: ScatterParts, numbers: Sequence[int], dark: bool
    ) -> None:
        self.parts, self.numbers, self.dark = parts, numbers, dark
        self.measures = [x, y] + ([] if parts.colour is None else [parts.colour])
        self.x = frame.as_numbers(x.values, 2, "x (layer, head)")
        self.y = self._of_shape(y.values, "y")
        self.is_finite = np.isfinite(self.x) & np.isfinite(self.y)

    def _of_shape(self, values: Any, name: str) -> Numbers:
        numbers = frame.as_numbers(values, 2, f"{name} (layer, head)")
        if numbers.shape != self.x.shape:
            raise ShapeError(f"{name} must have shape {self.x.shape}; got {numbers.shape}.")
        return numbers

    def dots(self, where: Mask, marker: Part) -> Part:
        """Return a dot for each head of `where`."""
        return head_dots(self.x, self.y, where, self._hovers(where, self.measures), marker)

    def heads(self) -> Part:
        """Return all heads, with their colours and intervals."""
        marker: Part = dict(size=9, color=theme.qualitative(self.dark)[0], opacity=_OPACITY)
        if self.parts.colour is not None:
            values = self._of_shape(self.parts.colour.values, "colour")
            low, high = scale_limits(values, False, None)
            scale = theme.stops(theme.sequential(self.dark)[_PALEST:])
            edge = dict(width=1, color=theme.muted(self.dark))
            marker |= dict(color=values[self.is_finite], cmin=low, cmax=high, colorscale=scale)
            marker |= dict(showscale=True, colorbar=colour_bar(self.dark), line=edge)
        dots = self.dots(self.is_finite, marker) | dict(name="a head")
        return dots | (self._bars() if self.parts.intervals else {})

    def _bars(self) -> Part:
        """Return the intervals of both measures, where they are defined."""
        look = dict(type="data", symmetric=False, thickness=1, width=0)
        look |= dict(color=theme.muted(self.dark))
        bars: Part = {}
        for axis, measure, means in zip("xy", self.measures, (self.x, self.y), strict=False):
            if measure.low is None or measure.high is None:
                continue
            ends = [self._of_shape(end, "an interval's end") for end in (measure.low, measure.high)]
            below, above = (np.nan_to_num(np.abs(end - means))[self.is_finite] for end in ends)
            bars[f"error_{axis}"] = look | dict(array=above, arrayminus=below)
        return bars

    def elsewhere(self) -> list[Part]:
        """Return the same heads in grey, which answer no click."""
        if self.parts.elsewhere is None:
            return []
        x, y = (self._of_shape(values, "elsewhere") for values in self.parts.elsewhere)
        where = np.isfinite(x) & np.isfinite(y)
        name = self.parts.elsewhere_name
        measures = [
            measure._replace(values=values)
            for measure, values in zip(self.measures, (x, y), strict=False)
        ]
        hovers = self._hovers(where, measures, f", {name}")
        marker = dict(size=7, color=theme.muted(self.dark), opacity=_GREY)
        look = dict(name=plotly_text(name), marker=marker) | frame.keep_on_click(_GREY)
        return [frame.markers(x[where], y[where], hovers, **look)]

    def _hovers(self, where: Mask, measures: Sequence[Measure], more: str = "") -> list[str]:
        titles = [plotly_text(clean(measure.title, 60)) for measure in measures]
        values = [np.asarray(measure.values) for measure in measures]
        return [
            f"{head_name(layer, head, numbers=self.numbers)}{more}<br>"
            + "<br>".join(
                f"{title}: <b>{theme.format_number(numbers[layer, head])}</b>"
                for title, numbers in zip(titles, values, strict=True)
            )
            for layer, head in np.argwhere(where).tolist()
        ]
