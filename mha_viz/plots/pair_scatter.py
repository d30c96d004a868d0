"""Pairs of heads in two measures: do heads of the same attention write the same?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Int, Num
from numpy.typing import NDArray
from scipy.stats import binned_statistic_2d
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import frame
from mha_viz.plots.cells import BAR, colour_bar, scale_limits
from mha_viz.plots.frame import Mask, Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, hover_text, plotly_text

# Low x and low y, high x and low y, low x and high y, high and high: for two similarities.
CORNERS = (
    "different attention, different output",
    "same attention, different output",
    "different attention, same output",
    "same attention, same output",
)
_OPACITY = 0.85  # some, so that crowds show; a paler dot would be lost on the page
_PALEST = 5  # the first colour of the sequential scale that reaches 3:1 on the page as a dot
_TOLERANCE = 1e-5  # numbers that differ by less are the same: the rest is rounding
_DOT_HEIGHTS = (0.1, 0.9)  # of the picture: what corners mean is written above and below all dots
_MIN_SPAN = 0.01  # of an axis, so that rounding does not look like structure
_MOST_DOTS = 2_000  # a browser without WebGL draws so many at once
_GRID = (48, 36)  # cells for counting the rest: fewer than dots, so that the sparsest are dots


@dataclass(frozen=True)
class MeasuredPairs:
    """Pairs of heads, which index `names`, with two measures, and a third one as `colour`."""

    x: Num[np.ndarray | Tensor, " pair"]
    y: Num[np.ndarray | Tensor, " pair"]
    pairs: Int[np.ndarray | Tensor, "pair 2"]
    names: Sequence[str]
    n_heads: int
    x_title: str
    y_title: str
    colour: Num[np.ndarray | Tensor, " pair"] | None = None
    colour_title: str = ""


def pair_scatter(
    measured: MeasuredPairs,
    *,
    corners: tuple[str, str, str, str] | None = CORNERS,
    chance: Sequence[tuple[frame.Limits | None, frame.Limits | None]] = (),
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw every pair of heads as a dot; pairs within a layer have a marker of their own.

    Above the picture stand Spearman's rank correlation, unless a measure is constant (see
    `is_constant`), and the number of pairs. There is no p-value: pairs that share a head are not
    independent. customdata of each dot is its pair [i, j]. Of more than 2,000 pairs those in the
    densest parts are no dots but counts in cells.

    `corners` say what low x and low y, high x and low y, low x and high y, and both high mean; the
    default is for two similarities. `chance` are bands (low, high) of x and of y in which pairs lie
    by chance, or None: the first two are shaded, others drawn as dotted lines. `selected` is a pair
    [i, j] to mark, in either order.
    """
    drawn = _Drawn(measured)
    has_value, same, titles = (
        drawn.is_finite,
        drawn.same_layer,
        (measured.x_title, measured.y_title),
    )
    crowd = _densest(drawn.x, drawn.y, has_value)
    shade = None if measured.colour is None else frame.as_numbers(measured.colour, 1, "colour")
    traces = [
        drawn.dots(where) | _look(kind, shade, where, dark) | frame.keep_on_click(_OPACITY)
        for kind, where in enumerate((has_value & ~crowd & ~same, has_value & ~crowd & same))
    ]
    if selected is not None:
        chosen = has_value & (np.sort(drawn.pairs, axis=1) == np.sort(selected)).all(axis=1)
        mark = dict(size=14, symbol="circle-open", color=theme.accent(dark), line=dict(width=3))
        look = dict(name="chosen", marker=mark)
        traces.append(drawn.dots(chosen) | look | frame.keep_on_click(1))
    rho = _correlation(drawn.x[has_value], drawn.y[has_value], titles)
    notes = [rho, frame.missing_note(has_value, "pairs")]
    if crowd.any():
        traces.insert(0, _counts(drawn.x[crowd], drawn.y[crowd], dark))
        notes.append(f"Where pairs are densest, {crowd.sum():,} of them are counted in cells.")
    if shade is not None and measured.colour_title:
        notes.append(f"Colour: {measured.colour_title}.")
    layout = dict(
        dragmode="pan",
        xaxis=_axis(drawn.x[has_value], titles[0]) | dict(anchor="free", position=0),
        yaxis=_axis(drawn.y[has_value], titles[1])
        | dict(domain=_DOT_HEIGHTS if corners else (0, 1)),
        shapes=[
            _band(axis, limits, i == 0, dark)
            for i, bands in enumerate(chance)
            for axis, limits in zip("xy", bands, strict=True)
            if limits is not None
        ],
        annotations=[_corner(i, meaning, dark) for i, meaning in enumerate(corners or ())],
    )
    border = frame.Border(BAR if shade is not None else 0, right_side=10, legend=True)
    return frame.headed_figure(traces, dark, "", notes, 440, layout, border)


class _Drawn:
    def __init__(self, measured: MeasuredPairs) -> None:
        self.x, self.y = frame.as_numbers(measured.x, 1, "x"), frame.as_numbers(measured.y, 1, "y")
        self.pairs = np.asarray(measured.pairs)
        shapes = self.x.shape, self.y.shape, self.pairs.shape
        if len({shape[0] for shape in shapes}) > 1 or self.pairs.shape[1:] != (2,):
            raise ShapeError("One x, y and pair each: got {}, {}, {}.".format(*shapes))
        self.names = frame.check_names(measured.names, len(measured.names))
        last = len(self.names) - 1
        if measured.n_heads < 1 or self.pairs.min() < 0 or self.pairs.max() > last:
            raise ArgumentError(f"Pairs must name heads from 0 to {last}.")
        self.is_finite = np.isfinite(self.x) & np.isfinite(self.y)
        layers = self.pairs // measured.n_heads
        self.same_layer = layers[:, 0] == layers[:, 1]
        titles = measured.x_title, measured.y_title
        first, second = (hover_text(clean(title, 60)) for title in titles)
        self.hover = (
            f"%{{text}}<br>{first}: <b>{theme.hover('x')}</b>"
            f"<br>{second}: <b>{theme.hover('y')}</b><extra></extra>"
        )

    def dots(self, where: Mask) -> Part:
        pairs, (x, y) = self.pairs[where], (at[where].astype(np.float32) for at in (self.x, self.y))
        names = [f"{self.names[i]} and {self.names[j]}" for i, j in pairs.tolist()]
        dots = dict(type="scatter", mode="markers", x=x, y=y, customdata=pairs.astype(np.int16))
        return dots | dict(hovertemplate=self.hover, text=names)


def is_constant(values: NDArray[np.floating]) -> bool:
    """Return whether several numbers, without those that are NaN, are the same but for rounding.

    >>> is_constant(np.array([1, 0.9999999, np.nan])), is_constant(np.array([0.5]))
    (True, False)
    """
    finite_values = values[np.isfinite(values)]
    return len(finite_values) > 1 and float(np.ptp(finite_values)) <= _TOLERANCE


def _densest(x: Numbers, y: Numbers, has_value: Mask) -> Mask:
    """Mark the pairs in the densest cells, so that at most `_MOST_DOTS` are left as dots."""
    crowd = np.zeros(len(has_value), dtype=bool)
    if has_value.sum() > _MOST_DOTS:
        *_, cell = binned_statistic_2d(x[has_value], y[has_value], None, "count", bins=_GRID)
        density = np.bincount(cell)[cell]
        n_sparser = np.cumsum(np.bincount(density))  # pairs in cells of at most so many
        crowd[has_value] = density > np.searchsorted(n_sparser, _MOST_DOTS, side="right") - 1
    return crowd


def _counts(x: Numbers, y: Numbers, dark: bool) -> Part:
    """Return how many pairs lie in each cell, the darker the more; a cell without any is empty."""
    counts, *edges = np.histogram2d(x, y, bins=_GRID)
    across, down = (((edge[1:] + edge[:-1]) / 2).astype(np.float32) for edge in edges)
    roots = np.where(counts > 0, np.sqrt(counts), np.nan).T.astype(np.float32)
    ends = [[end, theme.rgba(theme.muted(dark), 0.15 + 0.75 * end)] for end in (0, 1)]
    cells = dict(type="heatmap", x=across, y=down, z=roots, colorscale=ends, showscale=False)
    text = dict(text=counts.T.astype(np.int32), hovertemplate="%{text} pairs<extra></extra>")
    return cells | text


def _look(kind: int, shade: Numbers | None, where: Mask, dark: bool) -> Part:
    """Return the colour by kind of pair, or by the third measure, and the marker by kind."""
    marker: Part = dict(size=(4.5, 7)[kind], symbol=("circle", "diamond")[kind], opacity=_OPACITY)
    marker |= dict(color=theme.qualitative(dark)[kind], line=dict(width=0))
    if shade is not None:
        low, high = scale_limits(shade, False, None)
        marker |= dict(color=shade[where].astype(np.float32), cmin=low, cmax=high)
        marker |= dict(colorscale=theme.stops(theme.sequential(dark)[_PALEST:]))
        marker |= dict(showscale=kind == 0, colorbar=colour_bar(dark) if kind == 0 else None)
    return dict(name=("two layers", "same layer")[kind], marker=marker)


def _correlation(x: Numbers, y: Numbers, titles: tuple[str, str]) -> str:
    """Put Spearman's rank correlation into words, and which measure is constant."""
    constant = [title for values, title in zip((x, y), titles, strict=True) if is_constant(values)]
    text = frame.rank_correlation(x, y, "pairs", constant=bool(constant))
    return text + "".join(f" All pairs are the same in “{title}”." for title in constant)


def _band(axis: str, limits: frame.Limits, shaded: bool, dark: bool) -> Part:
    """Return a stripe over the whole height or width, under the dots."""
    other = "y" if axis == "x" else "x"
    look = (
        dict(fillcolor=theme.muted(dark), opacity=0.16, line=dict(width=0))
        if shaded
        else dict(line=dict(width=1, dash="dot", color=theme.muted(dark)))
    )
    low, high = limits
    ends = {f"{axis}0": low, f"{axis}1": high, f"{other}0": 0, f"{other}1": 1}
    return dict(type="rect", layer="below", **{f"{other}ref": f"{other} domain"}, **ends, **look)


def _corner(i: int, meaning: str, dark: bool) -> Part:
    upper, right = divmod(i, 2)
    text = plotly_text(clean(meaning, 60)).replace(", ", ",<br>")
    side, end = ("left", "right")[right], ("bottom", "top")[upper]
    anchor = dict(xref="paper", yref="paper", xanchor=side, yanchor=end, align=side)
    return frame.annotation(text, right, upper, theme.muted(dark), 11, **anchor)


def _axis(values: Numbers, title: str) -> Part:
    """Return a range around the values, with room for whole dots."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    short = max(_MIN_SPAN - (high - low), 0.0) / 2
    low, high = low - short, high + short
    more = 0.04 * (high - low)
    return frame.value_axis(title) | dict(range=[low - more, high + more], zeroline=False)
