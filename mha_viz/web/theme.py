"""Colours, colour scales and number formats of every picture, on screen and on paper.

The browser components get these tables as JSON.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mha_viz.core.amounts import format_number as format_number
from mha_viz.core.amounts import format_weight as format_weight
from mha_viz.core.amounts import true_minus as true_minus
from mha_viz.errors import ArgumentError

C = TypeVar("C")
Scale = Literal["linear", "sqrt", "log"]
SCALES: tuple[Scale, ...] = ("sqrt", "linear", "log")


@dataclass(frozen=True)
class Themed(Generic[C]):
    """A colour or a scale of colours, for a light and for a dark page.

    >>> Themed("white", "black")(dark=True)
    'black'
    """

    light: C
    dark: C

    def __call__(self, dark: bool = False) -> C:
        """Return the one for that page."""
        return self.dark if dark else self.light


def _scale(light: str, dark: str) -> Themed[tuple[str, ...]]:
    return Themed(tuple(light.split()), tuple(dark.split()))


# The scale of weights, from nothing to the most. Eleven colours, in even steps of OKLab lightness
# (light: 0.965 down to 0.25, dark: 0.225 up to 0.965) while the hue turns by some 50 degrees: order
# stays visible for every kind of colour vision and in print. In between, colours are mixed
# linearly, here, by plotly and in the browser.
sequential = _scale(
    "#eef4f8 #c6e0f1 #a1caeb #81b3e6 #679ae0 #557ed9 #4964c7 #3e4bb3 #343499 #291f7b #1d0c5c",
    "#191b25 #262754 #333482 #3c48a7 #3c62c2 #387fd5 #27a0dd #3ebddf #6fd5e1 #a4eaea #d6fdf9",
)

# For signed numbers: orange below zero, indigo above, the background's grey at zero.
diverging = _scale(
    "#9c3a06 #dd7a3c #f5c9a8 #f3f4f8 #b5c3f2 #5f78d8 #2f3796",
    "#ffc078 #d9822b #7a4a1e #1d2029 #3a4590 #6f82e6 #b8c4ff",
)

# For things without an order. Found by a search: any two stay apart (0.06 in OKLab) for each kind
# of dichromacy, too, and every one reaches a contrast of 3 on its background. A place has the same
# hue family in both themes.
qualitative = _scale(
    "#2850c5 #c77c06 #c72b5c #0498a1 #780180 #5f6000 #a968e2 #003a49",
    "#96acff #f5ae00 #f55d49 #14e8f8 #d864c2 #b5f280 #ffb8c6 #09ac7d",
)

# Where there is no number: a grey apart from every scale, and the hatch that is drawn on it.
missing = Themed("#dcdddf", "#3b3c40")
hatch = Themed("#8d9096", "#85888f")

accent = Themed("#c2410c", "#ffb454")  # for what is selected: a hue that no scale has
ink = Themed("#1a1d29", "#e9ebf3")  # of text
muted = Themed("#5a6072", "#a4abbe")  # of secondary text
gridline = Themed("#d9dce7", "#343a4d")  # of grids and borders
paper = Themed("#ffffff", "#12141c")  # of the page

FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"

# The logarithmic scale is log(1 + 999 w) / log(1000): it has a true zero and needs no cut-off.
_LOG_GAIN = 999.0
_TICKS: dict[str, tuple[float, ...]] = {
    "linear": (0.0, 0.1, 0.25, 0.5, 0.75, 1.0),
    "sqrt": (0.0, 0.01, 0.1, 0.25, 0.5, 1.0),
    "log": (0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 1.0),
}


def check_scale(scale: str) -> Scale:
    """Return the name of a colour scale, or an ArgumentError that lists them."""
    for known_scale in SCALES:
        if scale == known_scale:
            return known_scale
    raise ArgumentError(f"scale must be one of {', '.join(SCALES)}; got {scale!r}.")


def scale_weights(weights: NDArray[np.float32], scale: str) -> NDArray[np.float32]:
    """Return where weights in [0, 1] lie on the colour scale, in [0, 1]. Monotone; 0 and 1 stay.

    >>> scale_weights(np.array([0.0, 0.25, 1.0], dtype=np.float32), "sqrt").tolist()
    [0.0, 0.5, 1.0]
    """
    scale = check_scale(scale)
    if scale == "linear":
        return weights
    if scale == "sqrt":
        return np.sqrt(weights)
    return (np.log1p(_LOG_GAIN * weights) / math.log1p(_LOG_GAIN)).astype(np.float32)


def unscale_weights(positions: NDArray[np.float64], scale: str) -> NDArray[np.float64]:
    """Return the weights at positions on the colour scale: the inverse of `scale_weights`."""
    scale = check_scale(scale)
    if scale == "linear":
        return positions
    if scale == "sqrt":
        return positions**2
    return np.expm1(positions * math.log1p(_LOG_GAIN)) / _LOG_GAIN


def ticks(scale: str) -> tuple[float, ...]:
    """Return the weights that a colour bar names."""
    return _TICKS[check_scale(scale)]


def stops(colours: Sequence[str]) -> list[list[float | str]]:
    """Return Plotly stops of a scale in even steps.

    >>> stops(("#000000", "#777777", "#ffffff"))
    [[0.0, '#000000'], [0.5, '#777777'], [1.0, '#ffffff']]
    """
    return [[i / (len(colours) - 1), colour] for i, colour in enumerate(colours)]


def rgb(colour: str) -> tuple[int, int, int]:
    """Return the three numbers of "#rrggbb"."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def rgba(colour: str, opacity: float) -> str:
    """Return "#rrggbb" as plotly takes a colour that lets others through.

    >>> rgba("#ff0010", 0.2)
    'rgba(255,0,16,0.2)'
    """
    red, green, blue = rgb(colour)
    return f"rgba({red},{green},{blue},{opacity})"


def mix(colours: Sequence[str], position: float) -> str:
    """Return the colour at `position` in [0, 1] of a scale, mixed linearly between its stops.

    >>> mix(("#000000", "#0000ff"), 0.2)
    '#000033'
    """
    scaled = min(max(position, 0.0), 1.0) * (len(colours) - 1)
    low = min(int(scaled), len(colours) - 2)
    share = scaled - low
    pairs = zip(rgb(colours[low]), rgb(colours[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def colorscale(scale: str, dark: bool = False, stops: int = 101) -> list[list[float | str]]:
    """Return Plotly stops that colour *true* weights in [0, 1] as `scale` would colour them.

    The curve lies in the colours, not in the data, so that a chart holds the weights as they are.
    """
    positions = np.linspace(0.0, 1.0, stops)
    weights = unscale_weights(positions, scale)
    weights[0], weights[-1] = 0.0, 1.0  # plotly refuses scales that miss an end by rounding
    colours = sequential(dark)
    return [[float(w), mix(colours, float(t))] for w, t in zip(weights, positions, strict=True)]


def hover(field: str, *, signed: bool = False) -> str:
    """Return Plotly's placeholder of a number: three significant digits and a true minus.

    No exponents: Plotly writes their minus as a hyphen.

    >>> hover("z", signed=True)
    '%{z:+,.3~r}'
    """
    return f"%{{{field}:{'+' * signed},.3~r}}"


def layout(dark: bool = False) -> dict[str, Any]:
    """Return the Plotly layout of both themes: transparent, quiet, legible."""
    line, clear = gridline(dark), "rgba(0,0,0,0)"
    axis: dict[str, Any] = dict(
        color=muted(dark), gridcolor=line, linecolor=line, zerolinecolor=line
    )
    axis |= dict(tickfont=dict(color=ink(dark)), automargin=True, separatethousands=True)
    font = dict(family=FONT, size=13, color=ink(dark))
    hover = dict(bgcolor="#1f2331" if dark else "#ffffff", bordercolor=muted(dark))
    modebar = dict(bgcolor=clear, color=muted(dark), activecolor=ink(dark), orientation="h")
    title = dict(font=dict(size=15, color=ink(dark)), x=0, xanchor="left", xref="container")
    return dict(
        template="none",
        paper_bgcolor=clear,
        plot_bgcolor=clear,
        font=font,
        title=title,
        colorway=list(qualitative(dark)),
        hoverlabel=dict(hover, font=font, align="left"),
        modebar=modebar,
        xaxis=dict(axis),
        yaxis=dict(axis),
    )


def palette() -> dict[str, Any]:
    """Return the tables above as plain JSON values, for the browser components."""
    scales = {"sequential": sequential, "diverging": diverging, "qualitative": qualitative}
    colours = {"missing": missing, "accent": accent, "paper": paper, "ink": ink, "muted": muted}
    colours["gridline"] = gridline
    return {
        **{key: {"light": list(c.light), "dark": list(c.dark)} for key, c in scales.items()},
        **{key: {"light": c.light, "dark": c.dark} for key, c in colours.items()},
        "ticks": {name: list(values) for name, values in _TICKS.items()},
        "logGain": _LOG_GAIN,
    }
