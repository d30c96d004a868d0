"""The parts of every lab: its head, steps, folds and controls.

Knows streamlit; must not import torch or plotly: a lab's first lines are there first.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.learn.frame import block_map, questions
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.contents import BY_KEY, LABS, Lab
from mha_viz.ui.run.page_lock import one_thread
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.state import selection
from mha_viz.ui.state.link_values import Numbers, numbers, one_of
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.messages.notices import plain, stop_on_error

P = ParamSpec("P")


def part(draw: Callable[Concatenate[Choices, P], None]) -> Callable[Concatenate[Choices, P], None]:
    """Make a part of a lab that is drawn again by itself when a control in it changes.

    A fragment, in which an error ends as a sentence: those of the page do not reach into one. In
    the end the address has its choices.
    """

    @fragment
    @wraps(draw)
    def guarded_part(choices: Choices, /, *args: P.args, **named: P.kwargs) -> None:
        with stop_on_error(), one_thread():  # as `page` draws all of a lab
            draw(choices, *args, **named)
            choices.publish()

    return guarded_part


def sidebar(lab: Lab | None = None) -> None:
    """Draw the map with a lab's own part lit, and the switch for projectors, which stands alone."""
    if lab is None:
        with st.container(horizontal=True, horizontal_alignment="right"):
            look.projector_switch()
        return
    with st.sidebar:
        block_map.draw(lab.parts)
        st.caption(f"This lab: {plain(block_map.named(lab.parts))}.")
        look.projector_switch()


def begin(lab: Lab) -> None:
    """Draw number and title of a lab, its question, its goal and its prerequisites."""
    number = LABS.index(lab) + 1
    questions.begin_lab()
    st.title(f"{number}. {lab.title}", anchor=False)
    st.markdown(lab.about)
    st.caption(plan(lab))


def plan(lab: Lab) -> str:
    """Return goal, minutes and prerequisites, in a line of markdown."""
    before = [str(LABS.index(BY_KEY[key]) + 1) for key in lab.needs]
    labs = "lab" if len(before) == 1 else "labs"
    after = f"builds on {labs} {' and '.join(before)}" if before else "needs no other lab"
    return f"Afterwards you can {plain(lab.goal)}. About {lab.minutes} minutes; {after}."


def onward(lab: Lab) -> None:
    """Draw links to the lab before, all labs, and the next one."""
    number, pages = LABS.index(lab), session().pages
    ways = (
        (LABS[number - 1] if number else None, ":material/arrow_back:"),
        (LABS[number + 1] if number + 1 < len(LABS) else None, ":material/arrow_forward:"),
    )
    st.divider()
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        for other, icon in ways:
            if other is not None and other.address in pages:
                st.page_link(pages[other.address], label=other.title, icon=icon)
        if "learn" in pages:
            st.page_link(pages["learn"], label="All labs", icon=":material/list:")


def step(title: str, statement: str, formula: str = "") -> None:
    """Draw the beginning of a step: its claim, and the formula for it (LaTeX)."""
    st.header(title, anchor=False)
    st.markdown(statement)
    if formula:
        st.latex(formula)


def fold(choices: Choices, name: str, title: str, draw: Callable[[], object]) -> None:
    """Draw an expander whose content is made only while it is open; the link says that it is.

    Opening it draws the fragment or page again that it stands in.
    """
    key = choices.editor_key(f"fold-{name}")
    if choices.get(name, False, one_of((False, True))) and key not in st.session_state:
        st.session_state[key] = True
    lazy_sections.in_expander(title, key, draw)
    choices.keep(name, bool(from_browser(key)))


def row() -> DeltaGenerator:
    """Begin a row for the controls of a part, on one line."""
    return st.container(horizontal=True, vertical_alignment="bottom")


def placeholder(choices: Choices, name: str) -> DeltaGenerator:
    """Begin a container that is filled after what stands below it; page.css keeps its height."""
    container = st.container(key=choices.key(name))
    container.empty()  # Streamlit does not draw what holds nothing
    return container


class Grid(NamedTuple):
    """A small matrix: its title, its numbers to begin with, and the names of rows and columns."""

    title: str
    begin: Numbers
    rows: Sequence[str]
    columns: Sequence[str]


def editor(
    choices: Choices,
    name: str,
    grid: Grid,
    *,
    most: float,
    step: float | None = 0.1,
    cell: int = 74,
) -> Numbers:
    """Draw a small matrix that can be typed into; the link carries the typed numbers.

    `name` is in the link, another one for another size. Numbers lie in [-most, most] and are
    multiples of `step`, if there is one; `cell` is the width of a column in pixels.
    """
    import pandas as pd

    typed = choices.get(name, grid.begin, numbers(grid.begin, -most, most))
    # The editor keeps its own edits: it must be handed the same numbers in every run.
    base = choices.fixed(f"{name}-base", typed)
    number = st.column_config.NumberColumn(min_value=-most, max_value=most, step=step)
    with st.container(width=selection.for_type(90 + cell * len(grid.columns))):
        edited = st.data_editor(
            pd.DataFrame(base, index=list(grid.rows), columns=list(grid.columns)),
            num_rows="fixed",
            key=choices.editor_key(f"{name}-editor"),
            width="stretch",
            row_height=selection.for_type(35),
            column_config={
                "_index": st.column_config.TextColumn(grid.title, disabled=True),
                **dict.fromkeys(grid.columns, number),
            },
        )
    filled = edited.astype(float).fillna(0.0).clip(-most, most).to_numpy()
    written = tuple(tuple(row) for row in filled.tolist())
    choices.keep(name, written)
    return written
