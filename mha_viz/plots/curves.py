"""Lines over a number, loss while heads are pruned, and a path over a plane through a loss."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Required, SupportsFloat, TypedDict, cast

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import frame
from mha_viz.plots.cells import BAR, colour_bar
from mha_viz.plots.frame import Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

_MARKED = 40  # points up to which each has a marker
_LEAST = 1e-6  # nats: a smaller loss has no place on a logarithmic scale
_HEIGHT = 420  # of a landscape, in pixels
LOSS_UNIT = "nats per token"
Axis = Literal["linear", "log"]


class LineAxes(TypedDict, total=False):
    """Titles, axes and marks of a figure of lines.

    `bands` are (low (point,), high (point,)) around the line of the same name, `levels` dotted
    horizontal lines by name, and `moments` at most two dotted vertical ones. A "log" axis leaves
    out what is not above 0. `more` is plotly's layout over that of the figure: {"xaxis":
    ticks([1, 2, 4])}.
    """

    title: Required[str]
    x_title: Required[str]
    y_title: Required[str]
    bands: Mapping[str, tuple[Any, Any]]
    levels: Mapping[str, float]
    moments: Mapping[str, float]
    note: str
    x_axis: Axis
    y_axis: Axis
    height: int
    more: Mapping[str, Any]


_PLAIN: Part = dict(bands={}, levels={}, moments={}, note="", height=340, more={})
_PLAIN |= dict(x_axis="linear", y_axis="linear")


def curves(
    lines: Mapping[str, tuple[Any, Any]], axes: LineAxes, *, dark: bool = False
) -> go.Figure:
    """Draw lines by name, each (x (point,), y (point,)); a y that is not finite leaves a gap.

    Colour, dash and marker tell lines apart, hover shows exact numbers.
    """
    if not lines:
        raise ArgumentError("There is no line to draw.")
    axes = cast(LineAxes, _PLAIN | axes)
    traces: list[Part] = []
    for i, (name, points) in enumerate(lines.items()):
        x, y = (frame.as_numbers(values, 1, name) for values in points)
        if x.shape != y.shape:
            raise ShapeError(f"{name}: {len(x)} places, but {len(y)} values.")
        if name in axes["bands"]:
            traces.append(_band(x, axes["bands"][name], name, theme.qualitative(dark)[i % 8]))
        traces.append(_line(x, y, name, axes["x_title"]) | frame.series_look(i, 7, dark))
    levels, moments = axes["levels"], axes["moments"]
    n_named = len(lines) + len(levels)
    below = 56 + (24 * -(-n_named // 2) if n_named > 1 else 0)
    dotted = dict(type="line", line=dict(width=1.5, dash="dot", color=theme.ink(dark)))
    across_all = dotted | dict(xref="paper", x0=0, x1=1, showlegend=True)
    shapes = [across_all | dict(name=plotly_text(n), y0=y, y1=y) for n, y in levels.items()]
    shapes += [dotted | dict(yref="paper", y0=0, y1=1, x0=x, x1=x) for x in moments.values()]
    xs, ys = (np.concatenate([np.asarray(trace[axis], float) for trace in traces]) for axis in "xy")
    across = _axis(axes["x_title"], axes["x_axis"], xs)
    across |= dict(showline=True, ticks="outside", ticklen=4)
    power = "power" if axes["y_axis"] == "log" else None
    down = dict(_axis(axes["y_title"], axes["y_axis"], ys), exponentformat=power)
    layout = dict(height=axes["height"], xaxis=across, yaxis=down, shapes=shapes)
    layout = frame.merged(layout | dict(annotations=_moment_names(axes, dark)), axes["more"])
    room = dict(above=24, right_side=36) if moments else dict(above=8, right_side=14)
    border = frame.Border(left_side=56, below=below, legend=n_named > 1, **room)
    notes = [axes["note"]]
    return frame.headed_figure(traces, dark, axes["title"], notes, 0, layout, border)


def _axis(title: str, kind: Axis, numbers: Numbers) -> Part:
    text = dict(font=dict(size=12), standoff=6, text=plotly_text(title))
    axis: Part = dict(title=text, type=kind, zeroline=False, fixedrange=True)
    positive = numbers[numbers > 0]
    if kind == "log" and len(positive) and 4 < positive.max() / positive.min() < 1e4:
        axis |= dict(dtick="D2")  # 1, 2, 5: plotly writes all digits, on top of each other
    return axis


def ticks(numbers: Sequence[int], positions: Sequence[int] | None = None) -> Part:
    """Return an axis that names these numbers alone, at `positions` where these differ."""
    named = [f"{number:,}" for number in numbers]
    at = list(numbers if positions is None else positions)
    return dict(tickmode="array", tickvals=at, ticktext=named)


def _line(x: Any, y: Any, name: str, x_title: str) -> Part:
    label = plotly_text(clean(name, 60))
    numbers = [[frame.quantity(value, "") for value in pair] for pair in zip(x, y, strict=True)]
    hovers = [f"{label}<br>{plotly_text(x_title)}: {a}<br><b>{b}</b>" for a, b in numbers]
    mode = "lines+markers" if len(x) <= _MARKED else "lines"
    return frame.markers(x, y, hovers) | dict(name=label, mode=mode)


def _moment_names(axes: LineAxes, dark: bool) -> list[Part]:
    """Return the names of moments above the picture, where they touch no line, nor each other."""
    moments = sorted(axes["moments"].items(), key=lambda moment: moment[1])
    anchors = ("center",) if len(moments) == 1 else ("right", "left")
    above: Part = dict(yref="paper", yanchor="bottom")
    annotations = []
    for (name, x), anchor in zip(moments, anchors, strict=False):
        # Other than for lines, plotly takes the exponent.
        coordinate = math.log10(x) if axes["x_axis"] == "log" else x
        text = plotly_text(name), coordinate, 1, theme.muted(dark)
        annotations.append(frame.annotation(*text, xanchor=anchor, **above))
    return annotations


def _band(x: Any, band: tuple[Any, Any], name: str, colour: str) -> Part:
    low, high = (frame.as_numbers(values, 1, f"band of {name}") for values in band)
    if not len(low) == len(high) == len(x):
        raise ShapeError(f"{name}: {len(x)} places, but a band of {len(low)} and {len(high)}.")
    is_finite = np.isfinite(low) & np.isfinite(high)
    around = np.concatenate([x[is_finite], x[is_finite][::-1]])
    edge = np.concatenate([high[is_finite], low[is_finite][::-1]])
    filled: Part = dict(fill="toself", fillcolor=theme.rgba(colour, 0.2), showlegend=False)
    return frame.plain_lines(around, edge, 0, colour, **filled)


def pruning_curves(
    curves: Mapping[str, tuple[Any, Any]],
    band: tuple[Any, Any, Any] | None,
    unpruned: SupportsFloat,
    *,
    title: str,
    band_name: str = "at random",
    dark: bool = False,
) -> go.Figure:
    """Draw loss against the share of heads left, all of them at the left; random as a band.

    `curves` are (share_left (point,), loss (point,)) by name, `band` is (share_left, low, high) of
    random pruning. A dotted line is the loss with all heads, `unpruned`. All losses are in nats per
    token. Points that are not defined (NaN) leave gaps.
    """
    if not curves and band is None:
        raise ArgumentError("There is no curve to draw.")
    traces: list[Part] = []
    if band is not None:
        traces += _random_band(_by_share(band, band_name), band_name, dark)
    level = float(unpruned)
    dotted = dict(width=1.5, dash="dot", color=theme.ink(dark))
    text = f"all heads: <b>{frame.quantity(level, LOSS_UNIT)}</b>"
    line = frame.markers(np.linspace(1, 0, 21), [level] * 21, text, line=dotted)
    traces.append(line | dict(mode="lines", name=f"all heads: {frame.quantity(level, '')}"))
    for i, (name, points) in enumerate(curves.items()):
        share, loss = _by_share(points, name)
        label = plotly_text(clean(name, 40))
        hovers = [
            f"{label}<br>{theme.format_number(100 * share_left)} % of heads left<br>"
            f"loss <b>{frame.quantity(value, LOSS_UNIT)}</b>"
            for share_left, value in zip(share.tolist(), loss.tolist(), strict=True)
        ]
        look = frame.merged(frame.series_look(i, 7, dark), dict(line=dict(width=2.2)))
        mode = "lines+markers" if len(share) <= _MARKED else "lines"
        shown = dict(name=label, connectgaps=False, mode=mode)
        traces.append(frame.markers(share, loss, hovers, **look) | shown)
    plain = dict(zeroline=False, fixedrange=True)
    from_all_heads = dict(range=[1.02, -0.02], tickformat=".0%", nticks=6)
    layout = dict(
        legend=dict(traceorder="normal"),
        xaxis=frame.value_axis("heads left", **plain) | from_all_heads,
        yaxis=frame.value_axis(frame.with_unit("loss", LOSS_UNIT), **plain),
    )
    return frame.headed_figure(
        traces, dark, title, [], 340 + 16 * len(traces), layout, frame.Border(legend=True)
    )


def _by_share(point_values: Sequence[Any], name: str) -> list[Numbers]:
    """Return arrays of one length, from all heads left to the fewest."""
    arrays = [frame.as_numbers(values, 1, f"{clean(name, 40)} (point)") for values in point_values]
    if len({len(values) for values in arrays}) != 1:
        sizes = [len(values) for values in arrays]
        raise ShapeError(f"{clean(name, 40)}: as many shares as losses, but got {sizes}.")
    order = np.argsort(-arrays[0], kind="stable")
    return [values[order] for values in arrays]


def _random_band(points: list[Numbers], name: str, dark: bool) -> list[Part]:
    share, low, high = points
    label = plotly_text(clean(name, 60))
    hovers = [
        f"{label}<br>{theme.format_number(100 * s)} % of heads left<br>"
        f"<b>{frame.quantity(a, '')}</b> to <b>{frame.quantity(b, LOSS_UNIT)}</b>"
        for s, a, b in zip(share.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    look = dict(mode="lines", line=dict(width=0.8, color=theme.muted(dark)), name=label)
    filled = dict(fill="tonexty", fillcolor=theme.rgba(theme.muted(dark), 0.22))
    ends = [frame.markers(share, end, hovers) | look for end in (low, high)]
    return [ends[0] | dict(showlegend=False), ends[1] | filled]


@dataclass(frozen=True)
class LossPlane:
    """A plane through a loss, in nats and above 0, and a path over it."""

    x: Num[np.ndarray | Tensor, " across"]
    y: Num[np.ndarray | Tensor, " down"]
    loss: Num[np.ndarray | Tensor, "down across"]
    path: Num[np.ndarray | Tensor, "point 2"]


def landscape(
    plane: LossPlane,
    steps: Sequence[int],
    *,
    title: str,
    x_title: str,
    y_title: str,
    note: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw lines of equal loss on a plane, and the path over it, one point for each of `steps`.

    The loss is coloured by its logarithm; the last point is marked.
    """
    across, down = frame.as_numbers(plane.x, 1, "x"), frame.as_numbers(plane.y, 1, "y")
    height = frame.as_numbers(plane.loss, 2, "loss")
    points = frame.as_numbers(plane.path, 2, "path")
    if height.shape != (len(down), len(across)) or points.shape != (len(steps), 2):
        raise ShapeError(
            f"A loss for each y and x and a step for each point of the path: got {height.shape} "
            f"for {len(down)} x {len(across)}, {points.shape} for {len(steps)} steps."
        )
    powers = np.log10(np.maximum(height, _LEAST))
    losses = _round_losses(float(powers.min()), float(powers.max()))
    surface = dict(type="contour", x=across, y=down, z=powers, customdata=height, ncontours=24)
    surface |= dict(line=dict(width=0.5, color=theme.muted(dark)))
    surface |= dict(colorscale=theme.stops(theme.sequential(dark)))
    surface |= dict(colorbar=colour_bar(dark, losses))
    surface |= dict(hovertemplate=f"loss <b>{theme.hover('customdata')}</b> nats<extra></extra>")
    ink = theme.accent(dark)  # seen on pale and on dark
    look = dict(size=5, color=theme.paper(dark), line=dict(width=1.5, color=ink), opacity=1)
    hovers = [f"step {step:,}" for step in steps]
    line = frame.markers(points[:, 0], points[:, 1], hovers, marker=look)
    line |= dict(mode="lines+markers", line=dict(width=2, color=ink))
    last = [f"step {steps[-1]:,}, the end"]
    end = frame.markers(points[-1:, 0], points[-1:, 1], last, marker=frame.chosen_marker(dark))
    plain = dict(zeroline=False, fixedrange=True)
    axes = [dict(plain, title=frame.axis_title(name)) for name in (x_title, y_title)]
    layout = dict(xaxis=axes[0], yaxis=axes[1])
    border = frame.Border(above=BAR, left_side=56, below=48)
    return frame.headed_figure([surface, line, end], dark, title, [note], _HEIGHT, layout, border)


def _round_losses(low: float, high: float) -> dict[SupportsFloat, str]:
    """Return round losses between two powers of ten, by their power.

    >>> list(_round_losses(-1.2, 1.0).values()), list(_round_losses(0.0, 0.8).values())
    (['0.1', '1', '10'], ['1', '2', '5'])
    """
    digits = (1, 2, 5) if high - low < 1.5 else (1,)
    round_ones = (
        digit * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for digit in digits
    )
    return {math.log10(n): f"{n:g}" for n in round_ones if low <= math.log10(n) <= high}
