"""One step of a computation on matrices: windows around a chosen cell, and that cell in full.

Importing it imports torch, so labs do it late.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import streamlit as st
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.labels import clean
from mha_viz.web.theme import format_number

MAX_DRAWN = 64  # rows and columns up to which all of a matrix is drawn as well
MAX_NAMED = 200  # positions up to which a slider names them
MAX_POSITION = 99_999  # of a row or a column, in a link
Products = list[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """One side of a matrix: its name among the choices, what it counts, and a name per position."""

    name: str
    title: str
    names: list[str]
    labels: bool = False  # whether the names are words

    @classmethod
    def numbered(cls, name: str, title: str, size: int) -> "Axis":
        """Return an axis whose positions are called by their number."""
        return cls(name, title, [str(i) for i in range(size)])


@dataclass(frozen=True)
class Matrix:
    """Values with a title and two axes; `limits` of its colours, symmetric where None."""

    title: str
    values: Float[Tensor, "row column"]
    rows: Axis
    columns: Axis
    limits: tuple[float, float] | None = None

    @property
    def shape(self) -> str:
        """The size, as it is written beside the title."""
        return f"{len(self.rows.names)} × {len(self.columns.names)}"

    def draw(self, key: str, part: Sequence[slice], **look: Any) -> None:
        """Draw the rows and columns of `part` with their numbers; `look` as for `charts.matrix`."""
        rows, columns = part
        title = look.pop("title", self.title)
        look = {"rows": self.rows.names[rows], "shape": self.shape, "limits": self.limits} | look
        look["diverging"] = self.limits is None or self.limits[0] < 0
        charts.matrix(key, self.values[rows, columns], title, **look)


@dataclass(frozen=True)
class MatrixStep:
    """A matrix and what it is made of.

    With both factors: result = first second + bias. Otherwise `cell` says where a number is from.
    """

    result: Matrix
    first: Matrix | None = None
    second: Matrix | None = None
    bias: Float[Tensor, " column"] | None = None
    cell: Callable[[int, int], str] = lambda row, column: ""

    @property
    def shapes(self) -> str:
        """The sizes of what is multiplied, and of what comes out."""
        if self.first is None:
            return self.result.shape
        if self.second is None:
            return f"{self.first.shape} → {self.result.shape}"
        bias = "" if self.bias is None else f" + ({len(self.result.columns.names)})"
        return f"({self.first.shape}) · ({self.second.shape}){bias} = **{self.result.shape}**"

    def origin(self) -> str:
        """Name the row and the column behind a cell of the result, as {row} and {column}."""
        if self.first is None:
            return ""
        if self.second is None:
            return f"from the same place of {self.first.title}"
        return f"row {{row}} of {self.first.title} · column {{column}} of {self.second.title}"


def draw(choices: Choices, step: MatrixStep) -> None:
    """Draw the shapes of a step, its matrices around a chosen cell, and that cell as a sum."""
    st.markdown(f"Shapes: {step.shapes}")
    axes, size = (step.result.rows, step.result.columns), charts.window().size
    with layout.row():
        row, column = _position(choices, axes[0], "Row"), _position(choices, axes[1], "Column")
    blocks = {axes[0].name: _block(row, axes[0]), axes[1].name: _block(column, axes[1])}
    inner = 0
    if step.first is not None and step.second is not None and len(step.first.columns.names) > size:
        summed = step.first.columns
        name, text = f"from_{summed.name}", f"Summed over: {summed.title}, shown from"
        starts = range(0, len(summed.names), size)
        inner = choices.position(name, text, starts, 0, most=MAX_POSITION)
    inner_part = slice(inner, inner + size)
    with st.container(horizontal=True):
        for key, matrix, marked, note in (
            ("left", step.first, (row, None if step.second else column), ""),
            ("right", step.second, (None, column), ""),
            ("result", step.result, (row, column), step.origin()),
        ):
            if matrix is not None:
                part = [blocks.get(side.name, inner_part) for side in (matrix.rows, matrix.columns)]
                _window(choices.key(f"{key}-matrix"), matrix, part, marked, note)
    _explain_cell(step, row, column)
    cut = [
        f"{axis.title} {blocks[axis.name].start}–{blocks[axis.name].stop - 1} of {len(axis.names)}"
        for axis in axes
        if len(axis.names) > size
    ]
    if cut:
        st.caption(f"Written out: {', '.join(cut)}. Choose another cell to see others.")
    _all_of_it(choices.key("whole"), step.result)


def _position(choices: Choices, axis: Axis, label: str) -> int:
    """Choose the row or column of the cell that is written out, by the name of its axis."""
    # In self-attention rows and columns may be the same tokens, and still be chosen apart.
    name, size = f"{label.lower()}_{axis.name}", len(axis.names)
    if size == 1:
        return 0
    is_named = axis.labels and size <= MAX_NAMED
    called = [f"{i} · {clean(text, 14)}" for i, text in enumerate(axis.names)] if is_named else ()
    text = f"{label}: {axis.title}"
    return choices.position(name, text, range(size), 1, most=MAX_POSITION, called=called)


def _block(position: int, axis: Axis) -> slice:
    """Return the positions that are written out with this one; at the end the last ones."""
    shown, size = charts.window().size, len(axis.names)
    start = max(0, min(position // shown * shown, size - shown))
    return slice(start, min(start + shown, size))


def _window(
    key: str,
    matrix: Matrix,
    part: Sequence[slice],
    marked: tuple[int | None, int | None],
    note: str,
) -> None:
    """Draw a part of a matrix, with the cell at (row, column) framed; None frames all of them."""
    rows, columns = part
    framed = (
        range(size) if at is None else [at - shown.start]
        for at, shown, size in zip(marked, part, matrix.values[rows, columns].shape, strict=True)
    )
    window = charts.window()
    look: dict[str, Any] = {"columns": matrix.columns.names[columns], "note": note}
    look |= {"marked": list(product(*framed)), "cell": window.cell, "letters": window.letters}
    matrix.draw(key, part, **look)


def _explain_cell(step: MatrixStep, row: int, column: int) -> None:
    """Write out the chosen cell as the sum of its products, or its other origin."""
    result = step.result
    names = result.rows.names[row], result.columns.names[column]
    value = format_number(result.values[row, column])
    if not torch.isfinite(result.values[row, column]):
        value = "−∞ (masked)"
    head = f"**{plain(result.title)}** at {plain(clean(names[0]))}, {plain(clean(names[1]))}"
    if step.first is None or step.second is None:
        st.markdown(f"{head}: {step.cell(row, column)} **{value}**")
        return
    first, second = step.first.values, step.second.values
    products, remainder = largest_products(first, second, row, column)
    parts = [f"{_in_sum(a)} × {_in_sum(b)}" for a, b in products]
    if n_others := len(second) - len(products):
        parts.append(f"{_in_sum(remainder)} (the other {n_others} products)")
    total = remainder + sum(a * b for a, b in products)
    if step.bias is not None:
        parts.append(f"{_in_sum(float(step.bias[column]))} (bias)")
        total += float(step.bias[column])
    st.markdown(f"{head} = {' + '.join(parts)} = **{format_number(total)}**")


def _in_sum(value: float) -> str:
    """Write a number so that it may stand behind a plus."""
    text = format_number(value)
    return f"({text})" if value < 0 else text


def _all_of_it(key: str, matrix: Matrix) -> None:
    """Draw all of a matrix that the window cuts, as coloured cells."""
    rows, columns = matrix.values.shape
    if not charts.window().size < max(rows, columns) <= MAX_DRAWN:
        return
    look: dict[str, Any] = {
        "title": f"All of {matrix.title}",
        "cell": max(4, min(14, 260 // columns)),
    }
    if look["cell"] < 12 or rows > 24:
        look["rows"] = ()
    matrix.draw(key, (slice(None), slice(None)), **look)


def largest_products(
    first: Float[Tensor, "row inner"],
    second: Float[Tensor, "inner column"],
    row: int,
    column: int,
    most: int = 6,
) -> tuple[Products, float]:
    """Return the factors of the largest products in (first second)[row, column], largest first.

    Returns:
        At most `most` pairs of factors, and the sum of all other products.

    Raises:
        ArgumentError: there is no such cell.

    >>> largest_products(torch.tensor([[2.0, 3.0]]), torch.tensor([[5.0], [7.0]]), 0, 0, most=1)
    ([(3.0, 7.0)], 10.0)
    """
    if not (0 <= row < len(first) and 0 <= column < second.shape[1]):
        raise ArgumentError(f"There is no cell {row}, {column}.")
    products = first[row].double() * second[:, column].double()
    # Zeros of a masked row say nothing, but are products all the same.
    largest = products.abs().argsort(descending=True, stable=True)[:most]
    factors = [(float(first[row, i]), float(second[i, column])) for i in largest.tolist()]
    return factors, float(products.sum() - products[largest].sum())
