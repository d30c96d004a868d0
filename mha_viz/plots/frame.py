"""What figures share: checked numbers, headings, legends, axes and marks."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal, SupportsFloat

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, plotly_text

# Letters of a line that fits a phone 390 pixels wide; plotly does not wrap lines.
_TITLE_LETTERS, _NOTE_LETTERS = 42, 54
Limits = tuple[SupportsFloat, SupportsFloat]  # lowest and highest value of an axis or a scale
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = (
    "circle",
    "diamond",
    "square",
    "triangle-up",
    "cross",
    "triangle-down",
    "x",
    "star",
    "hexagon",
    "pentagon",
    "bowtie",
)


def as_numbers(values: Any, axes: int, name: str) -> NDArray[np.float64]:
    """A float64 copy with that many axes, none empty; what is not finite becomes NaN, not defined.

    Raises:
        ShapeError: another number of axes, or none of something.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    numbers = np.array(values, dtype=np.float64)
    if numbers.ndim != axes or not numbers.size:
        raise ShapeError(f"{name} must have {axes} axes, none empty; got shape {numbers.shape}.")
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def check_head(selected: tuple[int, int], layers: int, heads: int) -> tuple[int, int]:
    """The chosen (layer, head), or an ArgumentError where there is no such head."""
    layer, head = selected
    if not (0 <= layer < layers and 0 <= head < heads):
        raise ArgumentError(f"There is no {head_name(layer, head)} among {layers} x {heads} heads.")
    return layer, head


def check_names(names: Sequence[str], expected: int) -> list[str]:
    """The names of all heads, made fit for plotly; their number is checked."""
    if len(names) != expected:
        raise ShapeError(f"There are {expected} heads, but {len(names)} names were given.")
    return [plotly_text(clean(name, 40)) for name in names]


def quantity(value: float, unit: str) -> str:
    """A number with its unit, fit for plotly; "not defined" has none."""
    return (
        f"{theme.format_number(value)} {unit_text(unit)}".strip()
        if value == value
        else ("not defined")
    )


def unit_text(unit: str) -> str:
    """A unit, fit for plotly; empty where there is none."""
    return plotly_text(clean(unit, 30)) if unit else ""


def with_unit(title: str, unit: str) -> str:
    """A title with its unit in brackets, or the one of them that there is."""
    return f"{title} ({unit})" if title and unit else title or unit


def heading(title: str, notes: Sequence[str], dark: bool) -> tuple[dict[str, Any], int]:
    """A title with smaller lines below it, wrapped for a phone, and the height that it takes.

    Args:
        title: plain text, never read as markup; left out where empty.
        notes: likewise, smaller.
        dark: colours for a dark page.
    """
    lines = [plotly_text(line) for line in _wrapped(title, _TITLE_LETTERS)]
    small = f'<span style="font-size:12px;color:{theme.muted(dark)}">'
    for note in notes:
        lines += [f"{small}{plotly_text(line)}</span>" for line in _wrapped(note, _NOTE_LETTERS)]
    place = dict(x=0, xref="container", xanchor="left", y=1, yref="container", yanchor="top")
    text = dict(
        text="<br>".join(lines),
        font=dict(size=15, color=theme.ink(dark)),
        pad=dict(t=8 if len(lines) < 2 else 19, l=4),  # plotly draws several lines higher up
        **place,
    )
    return text, 14 + 20 * len(lines) if lines else 10


def _wrapped(text: str, letters: int) -> list[str]:
    return textwrap.wrap(clean(text, 400), letters) if text else []


def legend(dark: bool) -> dict[str, Any]:
    """A legend below the picture, in as many lines as it needs."""
    return dict(
        orientation="h",
        x=0,
        xanchor="left",
        y=0,
        yref="container",
        yanchor="bottom",
        font=dict(size=12, color=theme.ink(dark)),
        bgcolor="rgba(0,0,0,0)",
        itemwidth=30,
        itemclick=False,
        itemdoubleclick=False,
    )


def build_figure(
    traces: Sequence[dict[str, Any]], dark: bool, layout: Mapping[str, Any]
) -> go.Figure:
    """A figure with the theme's layout and `layout` over it, made at once: plotly checks each step.

    Args:
        traces: with their type; a scatter needs none.
        dark: colours for a dark page.
        layout: plotly's, as plain dictionaries.
    """
    typed = [dict(type="scatter") | trace for trace in traces]
    return go.Figure(dict(data=typed, layout=over(theme.layout(dark), layout)))


def headed_figure(
    traces: Sequence[dict[str, Any]],
    dark: bool,
    title: str,
    notes: Sequence[str],
    inner: SupportsFloat,
    layout: Mapping[str, Any],
    *,
    above: int = 0,
    sides: tuple[int, int] = (8, 12),
    below: int = 8,
    named: bool = False,
    drag: Literal["zoom", "pan", False] = False,
) -> go.Figure:
    """A figure below its heading; hover describes the closest point.

    Args:
        traces: as for `build_figure`.
        dark: colours for a dark page.
        title: of the heading; plain text.
        notes: smaller lines of the heading.
        inner: height of all that is below the heading and `above`, in pixels.
        layout: plotly's, over that of the heading.
        above: pixels between the heading and the picture, for a colour bar or names.
        sides: pixels at the left and right of the picture.
        below: pixels under the picture.
        named: whether a legend names the traces.
        drag: what dragging with a pointer does.
    """
    text, top = heading(title, notes, dark)
    top += above
    frame = dict(
        title=text,
        height=round(top + float(inner)),
        margin=dict(l=sides[0], r=sides[1], t=top, b=below),
        hovermode="closest",
        dragmode=drag,
        showlegend=named,
        **({"legend": legend(dark)} if named else {}),
    )
    return build_figure(traces, dark, over(frame, layout))


def over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested settings as one; where both have a value, that of `above` holds.

    >>> over(dict(height=300, xaxis=dict(nticks=5)), dict(xaxis=dict(type="log")))
    {'height': 300, 'xaxis': {'nticks': 5, 'type': 'log'}}
    """
    both = {
        key: over(below[key], above[key])
        for key in below.keys() & above.keys()
        if isinstance(below[key], dict) and isinstance(above[key], dict)
    }
    return {**below, **above, **both}


def layer_axis(layers: int) -> dict[str, Any]:
    """The x axis of figures over layers: every layer has a tick as long as they fit a phone."""
    return dict(
        range=[-0.6, layers - 0.4],
        tickmode="linear",
        tick0=0,
        dtick=-(-layers // 16),
        showgrid=False,
        zeroline=False,
        showline=True,
        ticks="outside",
        ticklen=4,
        title=axis_title("layer"),
        fixedrange=True,
    )


def value_axis(title: str) -> dict[str, Any]:
    """An axis of numbers with its title, which may be any text."""
    return dict(zeroline=True, showline=False, nticks=7, title=axis_title(title))


def axis_title(title: str) -> dict[str, Any]:
    """The title of an axis; any text."""
    return dict(text=plotly_text(clean(title, 44)), font=dict(size=12), standoff=6)


def chosen_marker(dark: bool, size: int = 13) -> dict[str, Any]:
    """What the chosen head looks like everywhere."""
    edge = dict(width=2, color=theme.paper(dark))
    return dict(size=size, color=theme.accent(dark), line=edge, opacity=1)


def stays(opacity: SupportsFloat) -> dict[str, Any]:
    """Settings that keep points as they are when one is clicked: the page draws its own mark."""
    still = dict(marker=dict(opacity=float(opacity)))
    return dict(selected=still, unselected=still)


def rank_correlation(
    x: NDArray[np.float64], y: NDArray[np.float64], what: str, *, level: bool = False
) -> str:
    """Spearman's rank correlation in words; not defined for fewer than two, or where one is level.

    Args:
        x: a measure of some things.
        y: another measure of them.
        what: these things in words.
        level: whether the caller takes one of the measures to be level but for rounding.
    """
    from scipy.stats import spearmanr  # has no stubs

    defined = not level and len(x) > 1 and np.ptp(x) and np.ptp(y)
    rho = float(spearmanr(x, y).statistic) if defined else math.nan
    found = f"{rho:.3f}".replace("-", "−") if math.isfinite(rho) else "not defined"
    return f"Spearman’s rank correlation {found}, {len(x):,} {what}."


def missing_note(missing: int, total: int, what: str = "heads") -> str:
    """What is left out, in words; empty where nothing is."""
    return f"{missing:,} of {total:,} {what} without a value, left out." if missing else ""
