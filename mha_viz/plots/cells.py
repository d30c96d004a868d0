"""Tables of numbers as coloured cells: axes that name every cell, hatching, cells to click."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsFloat
from unicodedata import east_asian_width as width

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from mha_viz.plots import frame
from mha_viz.plots.frame import Mask, Numbers, Part
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

MAX_CLICKABLE = 21_000  # cells; 144 x 144 are 20,736
_MAX_TEXTS = 4096  # cells whose numbers are sent as texts, too: 10 ms
PHONE_WIDTH = 300  # pixels that a phone leaves for all columns: their labels fit this width
BAR = 44  # height of the colour bar
# Cells are squares, in the upper left corner of the room that there is.
SQUARE: Part = dict(
    xaxis=dict(constrain="domain", constraintoward="left"),
    yaxis=dict(scaleanchor="x", constrain="domain", constraintoward="top"),
)


def scale_limits(
    values: Numbers, diverging: bool, limits: frame.Limits | None
) -> tuple[float, float]:
    """Return a scale's ends: of signed numbers symmetric around 0, else their least and largest."""
    if limits is not None:
        low, high = (float(end) for end in limits)
    elif diverging:
        high = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
        low = -high
    else:
        finite_values = values[np.isfinite(values)]
        low, high = (
            (float(finite_values.min()), float(finite_values.max()))
            if finite_values.size
            else (0.0, 1.0)
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def scale_colours(
    values: Numbers, diverging: bool, limits: frame.Limits | None, dark: bool
) -> Part:
    """Return plotly's zmin, zmax, colorscale and colorbar; for the ends see `scale_limits`."""
    low, high = scale_limits(values, diverging, limits)
    scale = theme.diverging(dark) if diverging else theme.sequential(dark)
    return dict(zmin=low, zmax=high, colorscale=theme.stops(scale), colorbar=colour_bar(dark))


def heatmap_cells(
    values: NDArray[np.floating], cell: float, colours: Part, hover: str = ""
) -> Part:
    """Return a heatmap of cells `cell` pixels high, whose text has the template `hover`."""
    space = 1.0 if cell >= 12 else 0.0  # only cells that are large enough can spare it
    text = dict(hovertemplate=hover, hoverongaps=False) if hover else dict(hoverinfo="skip")
    numbers = values.astype(np.float32)
    return dict(type="heatmap", z=numbers, xgap=space, ygap=space, **colours, **text)


def colour_bar(
    dark: bool, marks: Mapping[SupportsFloat, str] | None = None, *, length: int = 210
) -> Part:
    """Return a colour bar above the picture, `length` pixels long.

    Neither a y of 1 nor a title of its own: plotly would then shift the figure's title upwards.
    `marks` stand at their values; None leaves the choice of numbers to plotly.
    """
    ink = theme.muted(dark)
    bar = dict(orientation="h", thickness=9, outlinewidth=0, len=length, lenmode="pixels")
    bar |= dict(x=0, xref="paper", xanchor="left", xpad=0)
    bar |= dict(y=0.9999, yref="paper", yanchor="bottom", ypad=6)
    bar |= dict(ticks="outside", ticklen=3, tickcolor=ink, tickfont=dict(size=11, color=ink))
    bar |= dict(nticks=5, ticklabelposition="outside bottom")
    if marks is not None:
        bar |= dict(tickvals=list(marks), ticktext=list(marks.values()))
    return bar


def with_height_rule(
    figure: go.Figure, cell: float, row_names: Part, shape: tuple[int, int]
) -> go.Figure:
    """Note in a figure of square cells how its height should follow its width; return it.

    Plotly keeps a figure's height where there is less width than the cells would fill: they shrink,
    and leave blank what was below. A page does better with `height_by_width`. `cell` is the side of
    a cell where there is room, `row_names` the ticks at the left, `shape` rows and columns.
    """
    rows, columns = shape
    share, beside = rows / columns, 6.3 * longest_label(row_names) + 24
    fixed_height = figure.layout.height - cell * rows - share * beside
    figure.layout.meta = dict(height_by_width=[share, round(fixed_height)])
    return figure


def square_cells_figure(
    traces: Sequence[Part],
    names: tuple[Sequence[str], Sequence[str]],
    cell: float,
    title: str,
    notes: Sequence[str],
    dark: bool,
    letters: int = 14,
) -> go.Figure:
    """Build a figure of square cells with names of rows and columns, empty cells being grey.

    Names are cut to so many `letters`; hover shows the rest.
    """
    (down, across), (rows, columns) = names, (len(names[0]), len(names[1]))
    wide = min(cell, PHONE_WIDTH / columns)
    layout = dict(
        dragmode="zoom",
        shapes=[missing_background(rows, columns, dark)],
        **frame.merged(cell_axes(down, across, cell, wide, letters=letters), SQUARE),
    )
    labels = 6.3 * longest_label(fitting_ticks(across, wide, letters=letters)) + 14
    traces = [*traces, label_axes_trace()]
    figure = headed_cells(traces, dark, title, notes, cell * rows, layout, labels)
    return with_height_rule(
        figure, cell, fitting_ticks(down, cell, letters=letters), (rows, columns)
    )


def headed_cells(
    traces: Sequence[Part],
    dark: bool,
    title: str,
    notes: Sequence[str],
    inner: SupportsFloat,
    layout: Part,
    names: SupportsFloat,
) -> go.Figure:
    """Build a figure of cells with names of columns above and the first trace's colour bar below.

    `inner` is the height of the cells, `names` that of the names.
    """
    bar = traces[0]["colorbar"] | dict(y=-0.0001, yanchor="top")
    drawn = [traces[0] | dict(colorbar=bar), *traces[1:]]
    border, height = frame.Border(above=round(float(names)), below=BAR), float(inner) + BAR
    return frame.headed_figure(drawn, dark, title, notes, height, layout, border)


def height_by_width(figure: go.Figure) -> tuple[float, float] | None:
    """Return (a, b) of a figure that needs a height of a times its width plus b; else None.

    >>> height_by_width(go.Figure(layout=dict(meta=dict(height_by_width=[1, 90]))))
    (1.0, 90.0)
    """
    noted = figure.layout.meta
    rule = noted.get("height_by_width") if isinstance(noted, dict) else None
    return None if rule is None else (float(rule[0]), float(rule[1]))


def cell_axes(
    row_names: Sequence[str],
    column_names: Sequence[str],
    cell: float,
    wide: float,
    *,
    marks: Part | None = None,
    domain: tuple[float, float] = (0.0, 1.0),
    letters: int = 14,
) -> Part:
    """Return axes of cells `cell` pixels high and `wide` wide that stretch, names left and above.

    `marks` are ticks of both axes instead of the names that fit, `domain` says where the cells lie
    in the height of the picture.
    """
    across = fitting_ticks(column_names, wide, letters=letters) | (marks or {})
    down = fitting_ticks(row_names, cell, letters=letters) | (marks or {})
    level = marks is not None or longest_label(across) * 6.5 <= wide
    above = dict(anchor="free", position=1.0, side="top", tickangle=0 if level else -90)
    return frame.merged(
        named_axes(row_names, column_names, down, across),
        dict(yaxis=dict(domain=domain), xaxis2=above, yaxis2=dict(anchor="x")),
    )


def named_axes(
    row_names: Sequence[str], column_names: Sequence[str], down: Part, across: Part
) -> Part:
    """Return two pairs of axes in the same place.

    x and y belong to the cells and know the name of each, which is what hover reads. x2 and y2 draw
    the labels that fit: the ticks `across` and `down`. Numbers, not categories, lie on them: plotly
    would merge two of the same name.
    """
    quiet = dict(frame.QUIET, tickmode="array")
    every = dict(quiet, showticklabels=False)
    shown = dict(quiet, showticklabels=True, automargin=True, ticklabeloverflow="allow")
    shown["ticklabelstandoff"] = 3  # a turned name would lose its first letter's edge
    rows, columns = len(row_names), len(column_names)
    return dict(
        xaxis=every | _ticks(column_names) | dict(range=[-0.5, columns - 0.5]),
        yaxis=every | _ticks(row_names) | dict(range=[rows - 0.5, -0.5]),
        xaxis2=dict(shown, **across, overlaying="x", matches="x"),
        yaxis2=dict(shown, **down, overlaying="y", matches="y", side="left"),
    )


def _ticks(names: Sequence[str], step: int = 1) -> Part:
    shown = [plotly_text(name) for name in names[::step]]
    return dict(tickvals=list(range(0, len(names), step)), ticktext=shown)


def label_axes_trace() -> Part:
    """Return an empty trace on x2 and y2: plotly draws no axes without one."""
    return dict(x=[None], y=[None], xaxis="x2", yaxis="y2", hoverinfo="skip")


def fitting_ticks(
    names: Sequence[str], cell: float, *, letters: int = 14, largest: float = 12.0
) -> Part:
    """Return ticks of the labels that fit `cell` pixels each: every one, or every second, fifth ...

    Labels are cut to `letters`, hover shows the rest; `largest` is the size of the type where there
    is room.
    """
    size = min(largest, max(9.0, cell * 0.72))
    step = max(1, math.ceil((size + 1.5) / cell))
    return _ticks([clean(name, letters) for name in names], step) | dict(tickfont=dict(size=size))


def longest_label(ticks: Part) -> int:
    """Return the number of letters of the longest label; a wide one, such as 中, counts twice.

    >>> longest_label(dict(ticktext=["a", "中b"]))
    3
    """
    return max(sum(1 + (width(letter) in "WF") for letter in text) for text in ticks["ticktext"])


def missing_background(rows: int, columns: int, dark: bool) -> Part:
    """Return a grey rectangle that shows where a cell has no number."""
    look = dict(layer="below", fillcolor=theme.missing(dark))
    return _cell_rectangle((0, rows), (0, columns), **look)


def fade_rows(figure: go.Figure, rows: Iterable[int], columns: int, dark: bool) -> None:
    """Make rows of cells pale, for numbers of few observations; cells begin at (0, 0)."""
    pale = dict(layer="above", fillcolor=theme.paper(dark), opacity=0.7)
    shapes = (_cell_rectangle((row, row + 1), (0, columns), **pale) for row in rows)
    figure.layout.shapes += tuple(shapes)


def _cell_rectangle(rows: tuple[int, int], columns: tuple[int, int], **look: Any) -> Part:
    (top, below), (first, last) = rows, columns
    corners = (first - 0.5, top - 0.5), (last - 0.5, below - 0.5)
    return frame.rectangle(*corners, xref="x", yref="y", **look)


def masked(where: Mask, cell: float, dark: bool, name: str = "%{y} → %{x}") -> Part:
    """Return grey cells whose hover text explains, below their name, why they have no weight."""
    hover = f"{name}<br>{frame.MASKED}<extra></extra>"
    return grey_cells(np.where(where, 0.0, np.nan), cell, dark, hover)


def grey_cells(values: NDArray[np.floating], cell: float, dark: bool, hover: str) -> Part:
    """Return cells that have the one colour of what is missing, whatever their values."""
    grey = dict(showscale=False, colorscale=theme.stops([theme.missing(dark)] * 2))
    return heatmap_cells(values, cell, grey, hover)


def hatching(where: Mask, dark: bool, *, falling: bool = False) -> list[Part]:
    """Return a diagonal line through each of these cells, as one trace; none without cells."""
    rows, columns = np.nonzero(where)
    half = np.array([-0.5, 0.5, np.nan], dtype=np.float32)
    tilt = half if falling else -half
    x = (columns[:, None] + half).ravel().astype(np.float32)
    y = (rows[:, None] + tilt).ravel().astype(np.float32)
    return [frame.plain_lines(x, y, 1, theme.hatch(dark))] if rows.size else []


def frame_trace(
    corners: Sequence[tuple[float, float, float, float]], width: SupportsFloat, colour: str
) -> Part:
    """Return frames of rectangles (x0, y0, x1, y1) as one line trace."""
    x = [v for x0, _, x1, _ in corners for v in (x0, x1, x1, x0, x0, None)]
    y = [v for _, y0, _, y1 in corners for v in (y0, y0, y1, y1, y0, None)]
    return frame.plain_lines(x, y, width, colour, cliponaxis=False)


def clickable(values: Numbers, customdata: NDArray[np.intp], names: str, number: str) -> list[Part]:
    """Return invisible points over cells: plotly's cells cannot be selected by a click, points can.

    They also carry the hover, since they lie in front. Only one of them is put into the page
    (maxdisplayed), all of them answer. The first trace has the cells with a number, if there are
    any, the next one the others. `customdata` (row, column, 2) is what a click on each cell sends,
    `names` what hover calls a cell, made of %{y} and %{x}, `number` how it shows a number, made of
    %{marker.color}.
    """
    missing = np.isnan(values)
    traces: list[Part] = []
    for where, text in ((~missing, number), (missing, "not defined")):
        rows, columns = np.nonzero(where)
        marker: Part = dict(opacity=0, size=8, maxdisplayed=1)
        if text == number:
            marker |= dict(color=values[where].astype(np.float32), showscale=False)
        trace = dict(x=columns.astype(np.int16), y=rows.astype(np.int16), mode="markers")
        # an array: twenty thousand lists would take longer than all the rest
        trace |= dict(marker=marker, customdata=customdata[where].astype(np.int16))
        if text == number and len(rows) <= _MAX_TEXTS and (values[where] < 0).any():
            # As texts, for Plotly writes the minus of a colour's number as a hyphen.
            signed = bool(re.search(r"%\{marker.color:\+", number))
            numbers = values[where].tolist()
            trace |= dict(
                hovertext=[theme.format_number(cell_value, signed=signed) for cell_value in numbers]
            )
            text = re.sub(r"%\{marker.color:.*?\}", "%{hovertext}", number)
        trace |= dict(hovertemplate=f"{names}<br>{text}<extra></extra>", **frame.keep_on_click(0))
        traces += [trace] if rows.size else []
    return traces
