"""One step of lab 4 on screen: windows into its matrices, and one cell written out."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import product

import pandas as pd
import streamlit as st
import torch

from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.labs.step_by_step.numbers import Steps, cell
from mha_viz.learn.labs.step_by_step.tables import TEXTS, Axis, Matrix, StepTable
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state, views
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.labels import clean
from mha_viz.web.theme import format_number

_WHOLE = 64  # rows and columns up to which all of a matrix is drawn as well
STAGES = ("PROJECT", "COMPUTE", "CONCATENATE", "PROJECT")


def one_step(choices: Choices, scene: Scene, step: StepTable, found: Steps) -> None:
    """Draw a step: its stage and texts, its matrices around a chosen cell, and that cell."""
    view = state.current()
    names = [f"**{name}**" if i == step.stage else name for i, name in enumerate(STAGES)]
    st.markdown(" → ".join(names))
    head = words.head_name(*view.chosen)
    TEXTS.step(f"steps.{step.text}", formula=step.formula, head=head, **step.values)
    for note in step.notes:
        st.info(note, icon=":material/info:")
    st.markdown(f"Shapes: {step.shapes}")
    with frame.row():
        row = _place(choices, step.result.rows, "Row")
        column = _place(choices, step.result.columns, "Column")
    terms = _terms_from(choices, step)
    summed = slice(terms, terms + charts.window().size)
    blocks: dict[str, slice] = defaultdict(lambda: summed)
    blocks |= {
        axis.name: _block(place, axis.size)
        for axis, place in ((step.result.rows, row), (step.result.columns, column))
    }
    with st.container(horizontal=True):
        if step.left is not None:
            multiplied = step.right is not None
            _window(choices, "left", step.left, blocks, (row, None if multiplied else column))
        if step.right is not None:
            _window(choices, "right", step.right, blocks, (None, column))
        _window(choices, "result", step.result, blocks, (row, column), _made_of(step))
    _explain_cell(step, row, column)
    _left_out(step, blocks)
    _whole(choices, step)
    if step.text == "compare":
        _compared(scene, found)


def _place(choices: Choices, axis: Axis, label: str) -> int:
    """Choose the row or column of the cell that is written out, by the name of its axis."""
    # In self-attention rows and columns may be the same tokens, and still be chosen apart.
    name = f"{label.lower()}_{axis.name}"
    first = min(1, axis.size - 1)
    chosen = choices.get(name, first, views.whole(0, 99_999))
    if chosen >= axis.size:
        last = axis.size - 1
        state.add_problem(
            f"There is no {label.lower()} {chosen} here: showing the last one, {last}."
        )
        choices.keep(name, last)
    if axis.size == 1:
        return 0
    text = f"{label}: {axis.title}"
    if axis.labels and axis.size <= 200:
        called = {i: f"{i} · {clean(axis_name, 14)}" for i, axis_name in enumerate(axis.names)}
        return choices.slide(name, text, called, first, width=260)
    return choices.amount(name, text, 0, axis.size - 1, first, width=260)


def _terms_from(choices: Choices, step: StepTable) -> int:
    """Choose where the window into the summed-over axis begins."""
    size = charts.window().size
    if step.right is None or step.left is None or step.left.columns.size <= size:
        return 0
    axis = step.left.columns
    name, last = f"from_{axis.name}", (axis.size - 1) // size * size
    first = choices.get(name, 0, views.whole(0, 99_999))
    choices.keep(name, min(first // size * size, last))
    text = f"Summed over: {axis.title}, shown from"
    return choices.amount(name, text, 0, last, 0, step=size, width=260)


def _block(place: int, size: int) -> slice:
    """Return the places that are written out with this one; at the end the last ones."""
    shown = charts.window().size
    start = max(0, min(place // shown * shown, size - shown))
    return slice(start, min(start + shown, size))


def _window(
    choices: Choices,
    key: str,
    matrix: Matrix,
    blocks: Mapping[str, slice],
    place: tuple[int | None, int | None],
    note: str = "",
) -> None:
    """Draw a part of a matrix, with the cell at (row, column) framed; None frames all of them."""
    window = charts.window()
    rows, columns = blocks[matrix.rows.name], blocks[matrix.columns.name]
    part = matrix.values[rows, columns]
    marked = (
        range(size) if at is None else [at - shown.start]
        for at, shown, size in zip(place, (rows, columns), part.shape, strict=True)
    )
    charts.matrix(
        choices.key(f"{key}-matrix"),
        part,
        matrix.title,
        rows=matrix.rows.names[rows],
        columns=matrix.columns.names[columns],
        shape=f"{matrix.rows.size} × {matrix.columns.size}",
        diverging=matrix.diverging,
        limits=matrix.limits,
        marked=list(product(*marked)),
        note=note,
        cell=window.cell,
        letters=window.letters,
    )


def _made_of(step: StepTable) -> str:
    """Name the row and the column behind a cell of the result, as {row} and {column}."""
    if step.left is None:
        return ""
    if step.right is None:
        return f"from the same place of {step.left.title}"
    return f"row {{row}} of {step.left.title} · column {{column}} of {step.right.title}"


def _explain_cell(step: StepTable, row: int, column: int) -> None:
    """Write out the chosen cell as the sum of its products, or its other origin."""
    names = step.result.rows.names[row], step.result.columns.names[column]
    value = format_number(step.result.values[row, column])
    if not torch.isfinite(step.result.values[row, column]):
        value = "−∞ (masked)"
    head = f"**{plain(step.result.title)}** at {plain(clean(names[0]))}, {plain(clean(names[1]))}"
    if step.left is None or step.right is None:
        st.markdown(f"{head}: {step.cell(row, column)} **{value}**")
        return
    made = cell(step.left.values, step.right.values, row, column, step.bias)
    parts = [f"{_signed(a)} × {_signed(b)}" for _, a, b in made.terms]
    if made.n_rest:
        parts.append(f"{_signed(made.rest)} (the other {made.n_rest} products)")
    if step.bias is not None:
        parts.append(f"{_signed(made.bias)} (bias)")
    st.markdown(f"{head} = {' + '.join(parts)} = **{format_number(made.total)}**")


def _signed(value: float) -> str:
    """Write a number so that it may stand behind a plus."""
    text = format_number(value)
    return f"({text})" if value < 0 else text


def _left_out(step: StepTable, blocks: Mapping[str, slice]) -> None:
    cut = []
    for axis in (step.result.rows, step.result.columns):
        part = blocks[axis.name]
        if part.stop - part.start < axis.size:
            cut.append(f"{axis.title} {part.start}–{part.stop - 1} of {axis.size}")
    if cut:
        st.caption(f"Written out: {', '.join(cut)}. Choose another cell to see others.")


def _whole(choices: Choices, step: StepTable) -> None:
    """Draw all of a result that the window cuts, as coloured cells."""
    rows, columns = step.result.values.shape
    if not charts.window().size < max(rows, columns) <= _WHOLE:
        return
    size = max(4, min(14, 260 // columns))
    charts.matrix(
        choices.key("whole"),
        step.result.values,
        f"All of {step.result.title}",
        rows=step.result.rows.names if size >= 12 and rows <= 24 else (),
        shape=f"{rows} × {columns}",
        diverging=step.result.diverging,
        limits=step.result.limits,
        cell=size,
    )


def _compared(scene: Scene, found: Steps) -> None:
    names = TEXTS.labels("compared")
    table = pd.DataFrame(
        {
            "What": list(names.values()),
            "Largest difference": [
                format_number(found.differences[name][0], digits=2) for name in names
            ],
            "Largest number": [format_number(found.differences[name][1]) for name in names],
            "From the matrices": ["no" if name in found.own else "yes" for name in names],
        }
    )
    st.dataframe(table, hide_index=True, width="content", key="step-by-step-compared")
    st.caption(words.settings(scene))
