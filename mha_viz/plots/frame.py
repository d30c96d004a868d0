"""Parts that figures share: checked numbers and weights, headings, legends, axes and marks."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat, TypedDict, TypeVar

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.metrics.chance import rank_interval
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.web import theme
from mha_viz.web.labels import clean, clean_all, head_name, plotly_text

# Letters of a line that fits a phone 390 pixels wide; plotly does not wrap lines.
_TITLE_LETTERS, _NOTE_LETTERS = 42, 54
Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Part = dict[str, Any]  # of a Plotly figure: a trace, an axis, a look, all of its layout
Limits = tuple[SupportsFloat, SupportsFloat]  # lowest and highest value of an axis or a scale
F = TypeVar("F", bound=np.floating)
MASKED = "masked: this query cannot see this key"
# Axes: one is not drawn, the other shows its labels alone.
HIDDEN: Part = dict(visible=False, fixedrange=True)
QUIET: Part = dict(showgrid=False, zeroline=False, showline=False, ticks="")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = tuple(
    "circle diamond square triangle-up cross triangle-down x star hexagon pentagon bowtie".split()
)
_FORMAT = re.compile(r"%\{([xyz]):([^}]*)\}")  # of a number on an axis, in a hover's template


def as_numbers(values: Any, axes: int, name: str) -> Numbers:
    """Return a float64 copy with that many axes, none empty; what is not finite becomes NaN."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    numbers = np.array(values, dtype=np.float64)
    if numbers.ndim != axes or not numbers.size:
        raise ShapeError(f"{name} must have {axes} axes, none empty; got shape {numbers.shape}.")
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def check_head(selected: tuple[int, int], layers: int, heads: int) -> tuple[int, int]:
    """Return the chosen (layer, head), or an ArgumentError where there is no such head."""
    layer, head = selected
    if not (0 <= layer < layers and 0 <= head < heads):
        raise ArgumentError(f"There is no {head_name(layer, head)} among {layers} x {heads} heads.")
    return layer, head


def only_head(selected: tuple[int, int], has_value: Mask) -> Mask:
    """Return a mask (layer, head) of the chosen head, empty where it is not `has_value`."""
    head = check_head(selected, *has_value.shape)
    mask = np.zeros_like(has_value)
    mask[head] = has_value[head]
    return mask


def check_names(names: Sequence[str], expected: int) -> list[str]:
    """Return the names of all heads, made fit for plotly; their number is checked."""
    if len(names) != expected:
        raise ShapeError(f"There are {expected} heads, but {len(names)} names were given.")
    return [plotly_text(clean(name, 40)) for name in names]


def quantity(value: float, unit: str) -> str:
    """Return a number with its unit, fit for plotly; "not defined" has none."""
    number = theme.format_number(value)
    return f"{number} {unit_text(unit)}".strip() if value == value else "not defined"


def unit_text(unit: str) -> str:
    """Return a unit, fit for plotly; empty where there is none."""
    return plotly_text(clean(unit, 30)) if unit else ""


def with_unit(title: str, unit: str) -> str:
    """Return a title with its unit in brackets, or the one of them that there is."""
    return f"{title} ({unit})" if title and unit else title or unit


def heading(title: str, notes: Sequence[str], dark: bool) -> tuple[Part, int]:
    """Return a title with smaller notes below it, wrapped for a phone, and its height."""
    lines = [plotly_text(line) for line in _wrapped(title, _TITLE_LETTERS)]
    small = f'<span style="font-size:12px;color:{theme.muted(dark)}">'
    for note in notes:
        lines += [f"{small}{plotly_text(line)}</span>" for line in _wrapped(note, _NOTE_LETTERS)]
    text: Part = dict(text="<br>".join(lines), font=dict(size=15, color=theme.ink(dark)))
    text |= dict(x=0, xref="container", xanchor="left", y=1, yref="container", yanchor="top")
    text |= dict(pad=dict(t=8 if len(lines) < 2 else 19, l=4))  # plotly draws more lines higher up
    return text, 14 + 20 * len(lines) if lines else 10


def _wrapped(text: str, letters: int) -> list[str]:
    return textwrap.wrap(clean(text, 400), letters) if text else []


def legend(dark: bool) -> Part:
    """Return a legend below the picture, in as many lines as it needs."""
    position = dict(x=0, xanchor="left", y=0, yref="container", yanchor="bottom", orientation="h")
    look = dict(font=dict(size=12, color=theme.ink(dark)), bgcolor="rgba(0,0,0,0)", itemwidth=30)
    return dict(**position, **look, itemclick=False, itemdoubleclick=False)


def build_figure(traces: Sequence[Part], dark: bool, layout: Mapping[str, Any]) -> go.Figure:
    """Build a figure with `layout` over the theme's, at once: plotly checks each step.

    A trace names its type; a scatter need not.
    """
    typed = [dict(type="scatter") | _with_true_minus(trace) for trace in traces]
    return go.Figure(dict(data=typed, layout=merged(theme.layout(dark), layout)))


def _with_true_minus(trace: Part) -> Part:
    """Move the number formats of x, y and z out of a hover's template.

    Plotly writes a hyphen as minus where the template has the format, a true minus where the trace
    has it.
    """
    template = trace.get("hovertemplate") or ""
    formats = {f"{axis}hoverformat": form for axis, form in _FORMAT.findall(template)}
    return (
        trace | formats | dict(hovertemplate=_FORMAT.sub(r"%{\1}", template)) if formats else trace
    )


class HeadLook(TypedDict, total=False):
    """The look of a figure of heads.

    `selected` is the chosen head (layer, head), `layer_numbers` are the model's own, 0, 1, 2 ... if
    not given.
    """

    selected: tuple[int, int] | None
    layer_numbers: Sequence[int]
    dark: bool


@dataclass(frozen=True)
class Border:
    """Pixels around a picture, and its legend; `above` lie below the heading, for bar or names."""

    above: int = 0
    left_side: int = 8
    right_side: int = 12
    below: int = 8
    legend: bool = False


_PLAIN = Border()


def headed_figure(
    traces: Sequence[Part],
    dark: bool,
    title: str,
    notes: Sequence[str],
    inner: SupportsFloat,
    layout: Mapping[str, Any],
    border: Border = _PLAIN,
) -> go.Figure:
    """Build a figure below its heading; hover describes the closest point.

    `inner` is the height of all that is below the heading and the border above. `layout` lies over
    that of the heading; without a `dragmode` in it, dragging does nothing.
    """
    text, top = heading(title, notes, dark)
    top += border.above
    margin = dict(l=border.left_side, r=border.right_side, t=top, b=border.below)
    headed: Part = dict(title=text, height=round(top + float(inner)), margin=margin)
    headed |= dict(hovermode="closest", dragmode=False, showlegend=border.legend)
    headed |= dict(legend=legend(dark)) if border.legend else {}
    return build_figure(traces, dark, merged(headed, layout))


def merged(below: Part, above: Mapping[str, Any]) -> Part:
    """Return two nested settings as one; where both have a value, that of `above` holds.

    >>> merged(dict(height=300, xaxis=dict(nticks=5)), dict(xaxis=dict(type="log")))
    {'height': 300, 'xaxis': {'nticks': 5, 'type': 'log'}}
    """
    both = {
        key: merged(below[key], above[key])
        for key in below.keys() & above.keys()
        if isinstance(below[key], dict) and isinstance(above[key], dict)
    }
    return {**below, **above, **both}


def value_axis(title: str, **more: Any) -> Part:
    """Return an axis of numbers with its title, which may be any text."""
    return dict(zeroline=True, showline=False, nticks=7, title=axis_title(title)) | more


def axis_title(title: str) -> Part:
    """Return the title of an axis; any text."""
    return dict(text=plotly_text(clean(title, 44)), font=dict(size=12), standoff=6)


def chosen_marker(dark: bool, size: int = 13) -> Part:
    """Return what the chosen head looks like everywhere."""
    edge = dict(width=2, color=theme.paper(dark))
    return dict(size=size, color=theme.accent(dark), line=edge, opacity=1)


def keep_on_click(opacity: SupportsFloat) -> Part:
    """Return settings that keep points as they are when one is clicked: the page draws its mark."""
    still = dict(marker=dict(opacity=float(opacity)))
    return dict(selected=still, unselected=still)


def named_axis(
    positions: Sequence[SupportsFloat], names: Sequence[str], span: Limits, **more: Any
) -> Part:
    """Return an axis with these names at these places and no grid."""
    ticks = dict(tickvals=list(positions), ticktext=[plotly_text(name) for name in names])
    return dict(ticks, range=list(span), showgrid=False, zeroline=False, **more)


def series_look(i: int, size: int, dark: bool) -> Part:
    """Return the line and marker of the i-th of several lines: dash and symbol tell them apart."""
    colour = theme.qualitative(dark)[i % 8]
    return dict(
        line=dict(width=2, dash=DASHES[i % len(DASHES)], color=colour),
        marker=dict(symbol=SYMBOLS[i % len(SYMBOLS)], size=size, color=colour),
    )


def plain_lines(x: Any, y: Any, width: SupportsFloat, colour: str, **more: Any) -> Part:
    """Return a line, or several with gaps between them, that hover passes over."""
    line = dict(width=width, color=colour)
    return dict(x=x, y=y, mode="lines", hoverinfo="skip", line=line) | more


def plain_markers(x: Any, y: Any, marker: Part, **more: Any) -> Part:
    """Return markers that hover passes over."""
    return dict(x=x, y=y, mode="markers", hoverinfo="skip", marker=marker) | more


def markers(x: Any, y: Any, hovers: Sequence[str], **more: Any) -> Part:
    """Return markers with a text that hover shows: one for each, or one for all."""
    return dict(x=x, y=y, mode="markers", hovertext=hovers, hoverinfo="text", **more)


def text_trace(
    x: Any,
    y: Any,
    texts: Sequence[str],
    sides: str | Sequence[str],
    size: SupportsFloat,
    dark: bool,
) -> Part:
    """Return texts fit for plotly beside their places, `sides` of them, as one trace."""
    text = dict(text=texts, textposition=sides, textfont=dict(size=size, color=theme.ink(dark)))
    return dict(x=x, y=y, mode="text", hoverinfo="skip", cliponaxis=False, **text)


def annotation(
    text: str, x: SupportsFloat, y: SupportsFloat, colour: str | None, size: int = 12, **more: Any
) -> Part:
    """Return a text of the layout, fit for plotly already, at a place."""
    return dict(text=text, x=x, y=y, showarrow=False, font=dict(size=size, color=colour), **more)


def rectangle(corner: Limits, other: Limits, **more: Any) -> Part:
    """Return a rectangle of the layout between two corners (x, y); without a line by default."""
    (x0, y0), (x1, y1) = corner, other
    return dict(dict(type="rect", x0=x0, y0=y0, x1=x1, y1=y1, line=dict(width=0)), **more)


def framed(corner: Limits, other: Limits, width: int, dark: bool) -> Part:
    """Return the frame around what is chosen."""
    return rectangle(corner, other, line=dict(width=width, color=theme.accent(dark)))


def rank_correlation(
    x: Numbers, y: Numbers, noun: str, *, constant: bool = False, interval: bool = False
) -> str:
    """Put Spearman's rank correlation of two measures of some things, `noun`, into words.

    It is not defined for fewer than two, or where one measure is `constant`, perhaps but for
    rounding. `interval` adds its 95 % interval, as if the things were independent draws.
    """
    from scipy.stats import spearmanr  # has no stubs

    defined = not constant and len(x) > 1 and np.ptp(x) and np.ptp(y)
    rho = float(spearmanr(x, y).statistic) if defined else math.nan
    sentence = theme.format_weight(rho)
    if interval and math.isfinite(rho) and len(x) > 3:
        limits = " to ".join(f"{limit:.2f}" for limit in rank_interval(rho, len(x)))
        sentence += f" (95 % interval {theme.true_minus(limits)})"
    return f"Spearman’s rank correlation {sentence}, {len(x):,} {noun}."


def missing_note(has_value: Mask, noun: str = "heads") -> str:
    """Return a note on what is not `has_value` and left out; empty where nothing is."""
    missing = int((~has_value).sum())
    return f"{missing:,} of {has_value.size:,} {noun} without a value, left out." if missing else ""


def as_weights(pattern: Any, axes: int) -> NDArray[np.float32]:
    """Return attention weights as float32 of that many axes, without a copy where possible.

    Raises ShapeError: another number of axes, or none of something. ArgumentError: numbers outside
    [0, 1].
    """
    if isinstance(pattern, Tensor):
        pattern = pattern.detach().cpu().float().numpy()
    weights = np.asarray(pattern, dtype=np.float32)
    if weights.ndim != axes or not weights.size:
        raise ShapeError(f"Expected a pattern of {axes} axes, none empty; got {weights.shape}.")
    low, high = float(weights.min()), float(weights.max())
    if not (low >= 0.0 and high <= 1.01):  # NaN comes through in both ends
        raise ArgumentError(f"Attention weights lie in [0, 1]; got values from {low} to {high}.")
    return weights


def labelled_head(
    pattern: Any, labels: tuple[Sequence[str], Sequence[str]]
) -> tuple[NDArray[np.float32], list[str], list[str]]:
    """Check the weights (query, key) of one head; return them with their cleaned labels."""
    weights = as_weights(pattern, 2)
    axes = zip(labels, weights.shape, ("queries", "keys"), strict=True)
    queries, keys = (clean_all(*axis) for axis in axes)
    return weights, queries, keys


def where_visible(weights: NDArray[F], visible: Any, masked: float) -> NDArray[F]:
    """Return weights (..., query, key) with the number `masked` where a query cannot see a key.

    `visible` broadcasts to them; None: all are visible.
    """
    if visible is None:
        return weights
    is_visible = np.asarray(visible, dtype=bool)
    if is_visible.shape != weights.shape[weights.ndim - is_visible.ndim :]:
        raise ShapeError(f"visible must be of shape {weights.shape}, got {is_visible.shape}.")
    return np.where(is_visible, weights, weights.dtype.type(masked))
