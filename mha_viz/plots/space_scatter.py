"""Tokens in several spaces of one head, each on two of its components: a panel a space."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int, Num

from mha_viz.errors import ShapeError
from mha_viz.plots import frame
from mha_viz.plots.cells import BAR, colour_bar, scale_limits
from mha_viz.plots.frame import Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, hover_text

N_COLOURS = 8  # of categories; the last one is grey
_ACROSS = 2  # panels side by side: as many as fit a phone
_PANEL, _GAP, _NAME = 215, 46, 18  # pixels: heights of a panel, between two, and of its name
_SIZE, _OPACITY = 4.5, 0.75  # of a dot
_PALEST = 4  # the first colour of the sequential scale that is seen on the page as a dot


@dataclass(frozen=True)
class SpacePanel:
    """One space: its name, the tokens on two components, and what these are called."""

    name: str
    points: Float[np.ndarray, "token 2"]
    axes: tuple[str, str]


@dataclass(frozen=True)
class TokenColours:
    """Colours of tokens: a number each, or the number of its category."""

    title: str
    values: Num[np.ndarray, " token"]
    names: tuple[str, ...] = ()  # of the categories, at most 8; () for numbers


def space_scatter(
    panels: Sequence[SpacePanel],
    colours: TokenColours,
    tokens: Sequence[str],
    positions: Int[np.ndarray, "token 2"],
    *,
    notes: Sequence[str] = (),
    dark: bool = False,
) -> go.Figure:
    """Draw every token as a dot in each panel, two panels side by side.

    `positions` are the number of each token's text and its position there, the customdata of its
    dots. Of several categories the last is grey where there are eight. Axes of a panel have one
    scale. Raises ShapeError: panels, colours and tokens of different numbers.
    """
    sizes = {
        len(colours.values),
        len(tokens),
        len(positions),
        *(len(panel.points) for panel in panels),
    }
    if len(sizes) != 1 or not panels:
        raise ShapeError("Each panel needs a point, a colour, a name and a place for each token.")
    names = [clean(name, 24) for name in colours.names]
    dots = _dots(colours, names, tokens, dark) | dict(customdata=positions)
    rows = -(-len(panels) // _ACROSS)
    inner = rows * (_PANEL + _GAP)
    layout: Part = dict(dragmode="pan", annotations=[], meta=dict(panels=len(panels)))
    traces: list[Part] = []
    for i, panel in enumerate(panels):
        axis = str(i + 1) if i else ""
        x, y = panel.points.astype(np.float32).T
        traces.append(dots | dict(x=x, y=y, xaxis=f"x{axis}", yaxis=f"y{axis}"))
        layout |= _panel(panel, axis, divmod(i, _ACROSS), (rows, inner), dark)
        layout["annotations"].append(_name(panel, layout, axis, dark))
    for name, colour in zip(names, _palette(colours, dark), strict=False):
        look = dict(name=hover_text(name), showlegend=True)
        traces.append(frame.plain_markers([None], [None], dict(color=colour, size=9), **look))
    above, below = (_NAME, 34) if names else (_NAME + BAR, 8)
    border = frame.Border(above, left_side=30, right_side=6, below=below, legend=bool(names))
    panel_notes = [*notes, *[f"Colour: {colours.title}."] * (not names)]
    return frame.headed_figure(traces, dark, "", panel_notes, inner, layout, border)


def _dots(colours: TokenColours, names: Sequence[str], tokens: Sequence[str], dark: bool) -> Part:
    """Return what the dots of all panels share: their look, and what hover says."""
    texts = [hover_text(clean(token)) for token in tokens]
    hover = "%{text}, position %{customdata[1]} of text %{customdata[0]}"
    if names:
        kinds = [hover_text(names[int(i)]) for i in colours.values]
        texts = [f"{text} ({kind})" for text, kind in zip(texts, kinds, strict=True)]
    else:
        hover += f"<br>{hover_text(colours.title)} %{{marker.color:.3~g}}"
    look: Part = dict(type="scatter", mode="markers", showlegend=False, text=texts)
    look |= dict(marker=_marker(colours, dark), hovertemplate=f"{hover}<extra></extra>")
    return look | frame.keep_on_click(_OPACITY)


def _panel(
    panel: SpacePanel, axis: str, cell: tuple[int, int], size: tuple[int, int], dark: bool
) -> Part:
    """Return both axes of a panel in its row and column, of so many rows and pixels in all."""
    (row, column), (rows, inner) = cell, size
    x, top = column / _ACROSS, 1 - row / rows
    axes: Part = {}
    ends = ([x + 0.08 * (column > 0), x + 1 / _ACROSS], [top - 1 / rows + _GAP / inner, top])
    look = frame.QUIET | dict(showticklabels=False, showgrid=True, zeroline=True)
    for name, other, domain, title in zip("xy", "yx", ends, panel.axes, strict=True):
        of_theme = theme.layout(dark)[f"{name}axis"]
        panel_axis = dict(domain=domain, anchor=f"{other}{axis}", title=frame.axis_title(title))
        axes[f"{name}axis{axis}"] = frame.merged(of_theme, look | panel_axis)
    axes[f"yaxis{axis}"]["scaleanchor"] = f"x{axis}"
    return axes


def _name(panel: SpacePanel, layout: Part, axis: str, dark: bool) -> Part:
    x, y = (layout[f"{of}axis{axis}"]["domain"] for of in "xy")
    anchor: Part = dict(xref="paper", yref="paper", xanchor="left", yanchor="bottom")
    return frame.annotation(
        f"<b>{hover_text(panel.name)}</b>", x[0], y[1], theme.ink(dark), **anchor
    )


def _palette(colours: TokenColours, dark: bool) -> list[str]:
    """Return a colour for each category; the last of eight is grey."""
    some = list(theme.qualitative(dark))[: len(colours.names)]
    return [*some[:-1], theme.muted(dark)] if len(colours.names) == N_COLOURS else some


def _marker(colours: TokenColours, dark: bool) -> Part:
    """Return the look of dots: a step of a scale for each category, or a scale for numbers."""
    look: Part = dict(size=_SIZE, opacity=_OPACITY, line=dict(width=0))
    if colours.names:
        n = len(colours.names)
        steps = [
            [edge / n, colour]
            for i, colour in enumerate(_palette(colours, dark))
            for edge in (i, i + 1)
        ]
        return look | dict(
            color=colours.values.astype(np.uint8), cmin=-0.5, cmax=n - 0.5, colorscale=steps
        )
    values = frame.as_numbers(colours.values, 1, "colours")
    low, high = scale_limits(values, False, None)
    scale = theme.stops(theme.sequential(dark)[_PALEST:])
    numbers = dict(color=values.astype(np.float32), cmin=low, cmax=high, colorscale=scale)
    return look | numbers | dict(showscale=True, colorbar=colour_bar(dark) | dict(ypad=_NAME + 6))
