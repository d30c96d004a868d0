"""The charts that labs draw most: matrices with their numbers, and figures of lines.

Knows streamlit; must not import torch or plotly: a lab's first lines are there first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages import texts as messages

if TYPE_CHECKING:
    from mha_viz.core.record.attention_record import AttentionRecord
    from mha_viz.plots.curves import LineAxes
    from mha_viz.plots.pictures import Cells, MatrixLook


class FigureTexts(messages.FigureTexts):
    """Texts that `figures.show` takes."""

    caption: str


class Window(NamedTuple):
    """The part of a large matrix that is written out.

    Args:
        size: rows and columns.
        cell: width of one, in pixels.
        letters: of a name beside the cells.
    """

    size: int
    cell: int
    letters: int


def window() -> Window:
    """Return a window so small that three matrices stand side by side where type is large."""
    return Window(4, 36, 8) if look.large() else Window(8, 46, 14)


def matrix(
    key: str,
    values: Any,
    title: str,
    on_click: Callable[[int, int], None] | None = None,
    **cells: Unpack[MatrixLook],
) -> None:
    """Draw a matrix with its numbers. Several wrap side by side in a horizontal container."""
    from mha_viz.plots.pictures import number_matrix
    from mha_viz.ui.widgets.components.number_table import number_tables

    room = look.ROOM if look.phone() else None
    numbers = number_matrix(values, title, {"room": room, **cells})
    number_tables([numbers], dark=look.dark(), key=key, on_click=on_click)


def corner(
    key: str,
    values: Any,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str] = (),
    **cells: Any,
) -> None:
    """Draw the first rows and columns of a matrix, as many as `window` takes, with its shape."""
    size, cell, letters = window()
    names = columns or [str(i) for i in range(values.shape[1])]
    cells |= {"rows": rows[:size], "columns": names[:size], "cell": cell, "letters": letters}
    cells |= {"shape": " × ".join(map(str, values.shape))}
    matrix(key, values[:size, :size], title, **cells)


def weights(
    key: str,
    pattern: Any,
    title: str,
    queries: Sequence[str],
    keys: Sequence[str],
    on_click: Callable[[int, int], None] | None = None,
    **cells: Unpack[MatrixLook],
) -> None:
    """Draw a matrix of shares from 0 to 1, as attention weights are; arguments as for `matrix`."""
    shares: MatrixLook = {"rows": queries, "columns": keys, "shape": "query × key"}
    shares |= {"diverging": False, "limits": (0.0, 1.0)}
    matrix(key, pattern, title, on_click, **shares | cells)


def head_picture(
    key: str, record: AttentionRecord, head: tuple[int, int], title: str, width: int | None
) -> None:
    """Draw the weights of one head, query x key; of `width` pixels where it may be narrow."""
    from mha_viz.core.record.visible import visible_keys
    from mha_viz.plots.heatmap import head_heatmap
    from mha_viz.ui.widgets.exports import figures

    weights, labels = record.head(*head).numpy(), (record.labels, record.key_labels)
    size, visible = look.square(360, width), visible_keys(record, head[0])
    figure = head_heatmap(weights, labels, title=title, dark=look.dark(), visible=visible, **size)
    figures.chart(figure, key=key, alt=f"Attention weights of {title}.", tools=False)


def cells(
    key: str,
    pictures: Sequence[Cells],
    *,
    table: Any,
    across: int | None = None,
    on_click: Callable[[int, int], None] | None = None,
    figure: Callable[[], Any] | None = None,
    **texts: Unpack[FigureTexts],
) -> None:
    """Draw pictures made of cells, `across` beside each other, with their table and their files.

    `figure` makes the picture for the files, where it is another one.
    """
    from mha_viz.plots.pictures import cells_figure
    from mha_viz.ui.widgets.components.number_table import number_tables
    from mha_viz.ui.widgets.exports import figures

    dark = look.dark()
    number_tables(pictures, dark=dark, key=f"{key}-drawn", across=across, on_click=on_click)
    make_figure = figure or (lambda: cells_figure(pictures, across=across or 3, dark=dark))
    figures.explain(make_figure, key=key, table=table, **texts)


def table(key: str, rows: Any) -> None:
    """Draw a table as wide as its columns, without the numbers of its rows."""
    import streamlit as st

    st.dataframe(rows, hide_index=True, width="content", key=key)


def lines(
    key: str,
    drawn: Mapping[str, Any],
    *,
    x: Any = None,
    table: Any = None,
    caption: str,
    how_to_read: str,
    name: str = "",
    **axes: Unpack[LineAxes],
) -> None:
    """Draw a figure of lines, with its table and its files.

    `drawn` are (x, y) by name, or y alone where all lines share `x`. `table` has the columns by
    name, for "As a table" and CSV; columns of the lines alone are made if there is none. The files
    are called `name`, or as the title.
    """
    import pandas as pd

    from mha_viz.plots.curves import curves
    from mha_viz.ui.widgets.exports import figures

    if x is not None:
        drawn = {line: (x, y) for line, y in drawn.items()}
    if table is None:
        x = next(iter(drawn.values()))[0]
        table = {axes["x_title"]: x, **{line: y for line, (_, y) in drawn.items()}}
    figures.show(
        curves(drawn, axes, dark=look.dark()),
        key=key,
        name=name or axes["title"],
        table=pd.DataFrame(dict(table)),
        caption=caption,
        how_to_read=how_to_read,
    )


def matrix_formula(values: Any, title: str) -> str:
    r"""Return LaTeX of a small matrix above a title; quicker on screen than `matrix`.

    >>> matrix_formula([[0.5, -12345.0]], "x")
    '\\underbrace{\\begin{bmatrix}0.5 & -1.23 \\cdot 10^{4}\\end{bmatrix}}_{\\text{x}}'
    """
    rows = [" & ".join(_short(float(value)) for value in row) for row in values]
    size = "" if len(values[0]) <= 3 else r"\scriptsize "  # five columns fit a phone
    inside = size + r"\begin{bmatrix}" + r" \\ ".join(rows) + r"\end{bmatrix}"
    return rf"\underbrace{{{inside}}}_{{\text{{{title}}}}}"


def _short(value: float) -> str:
    """Write a number with three significant digits."""
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa
