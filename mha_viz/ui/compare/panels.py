"""The panels of a board: heads of any models and sentences, and how they are added and removed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import streamlit as st

from mha_viz.core.compare.twins import nearest_others
from mha_viz.core.layer_numbers import is_counted
from mha_viz.errors import ArgumentError, MhaVizError
from mha_viz.reports.report import Report
from mha_viz.ui.operating.streamlit_run import is_history_navigation
from mha_viz.ui.run import memory, reporting, scene
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.layer_numbers import by_number, by_position, chosen_pin
from mha_viz.ui.state.link_values import UNTRAINED, Pin, unique_pins
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import UNTRAINED_COPY, Compare, two_runs
from mha_viz.ui.widgets.components.board import Edit
from mha_viz.ui.widgets.controls import model_menus
from mha_viz.ui.widgets.messages import words
from mha_viz.web.board import BoardHead

LETTERS = "ABCDEFGHI"  # of the panels, from the first to the last
Head = tuple[int, int]


class Panel(NamedTuple):
    """A head of a run; without a run, the reason why there is none."""

    letter: str
    pin: Pin
    view: Compare  # of this panel's run and head
    run: Scene | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """The head's name behind the panel's letter."""
        return f"{self.letter} {words.head_name(self.pin.layer, self.pin.head, numbers=())}"

    @property
    def head(self) -> Head:
        """The head's place in its record."""
        return self.view.chosen

    @property
    def scene(self) -> Scene:
        """The run of a panel that has one."""
        assert self.run is not None
        return self.run

    def report(self) -> Report:
        """Return the scores and labels of all heads of the panel's run."""
        return reporting.report(self.scene, self.view)

    def drawn(self) -> BoardHead:
        """Return what the browser draws of it."""
        pin, record = self.pin, None if self.run is None else self.run.record
        text = " | ".join(filter(None, (pin.text, pin.pair)))
        part = "" if pin.part == "self" else f" ({pin.part})"
        look = record, self.head, self.problem, pin.note
        return BoardHead(self.name, pin.model + part, text, *look)


def compute(first: Scene, view: Compare) -> list[Panel]:
    """Run what each panel of the board shows."""
    return of_pins(pins_of(first, view), view)


def of_pins(pins: Sequence[Pin], view: Compare) -> list[Panel]:
    """Run what each of these heads shows."""
    return [_panel(letter, pin, view) for letter, pin in zip(LETTERS, pins, strict=False)]


def pins_of(first: Scene, view: Compare) -> tuple[Pin, ...]:
    """Return the board's heads: the pinned ones, or the chosen head and the second one."""
    if len(view.pins) > 1:
        return view.pins
    chosen = chosen_pin(view)
    pins = view.pins or (chosen,)
    second = _second_pin(first, view) if chosen.is_in(pins) else chosen
    return pins if second.is_in(pins) else (*pins, second)


def same_head(first: Scene, pin: Pin, *, text: str = "", model: str = "") -> Pin:
    """Return a head's like on another sentence or in another model; "" for its own."""
    base = pin.model.removesuffix(UNTRAINED)
    name = base + UNTRAINED if model == UNTRAINED_COPY else model or pin.model
    other = memory.model(name, first.device, first.dtype)
    part = pin.part if pin.part in other.parts else other.parts[0]
    # A pair belongs to its text; a decoder's text stays what it is beside another encoder's.
    pair = pin.pair if other.accepts_pair and (not text or len(other.parts) > 1) else ""
    return pin._replace(model=name, text=text or pin.text, pair=pair, part=part, note="")


def _second_pin(first: Scene, view: Compare) -> Pin:
    text = view.text_b if view.text_b.strip() else ""
    pin = same_head(first, chosen_pin(view), text=text, model=view.model_b)
    return pin._replace(layer=max(by_number(view).layer_b, 0), head=max(view.head_b, 0))


def _panel(letter: str, pin: Pin, view: Compare) -> Panel:
    """Run a panel's text; where it cannot be run, the panel says why."""
    fields: dict[str, Any] = dict(zip(Pin._fields[:-1], pin, strict=False))
    view = replace(view, **fields, query=-1, key=-1, layer_numbers=(), model_b="")
    base = pin.model.removesuffix(UNTRAINED)
    try:
        if base not in (*model_menus.other_models(), selection.current().model):
            raise ArgumentError(f"The model {base!r} is not on this machine.")
        if memory.needs_check(base, view.device, view.dtype):
            memory.check(base)
        run = scene.other(view)
        numbers = run.record.layer_numbers
        view = by_position(view, () if is_counted(numbers) else numbers)
        if not scene.is_head(run.record, view.chosen):
            raise ArgumentError(scene.no_such_head(run.record, pin.layer, pin.head))
    except MhaVizError as error:
        return Panel(letter, pin, view, problem=str(error))
    return Panel(letter, pin, view, run)


def fit_second(first: Scene, view: Compare) -> Compare:
    """Put the chosen head's nearest other head beside it, unless a second one was chosen."""
    is_chosen = view.layer_b >= 0 and view.second not in (session().auto_second, view.chosen)
    if is_chosen or two_runs(view):
        return view
    second = 0, min(1, first.record.n_heads - 1)
    if not first.is_long and first.head_count > 1:  # of a long text all pairs take long
        twins, _ = nearest_others(reporting.likeness(first, "hellinger"))
        twin = int(twins[view.layer * first.record.n_heads + view.head])
        second = words.head_at(twin, first) if twin >= 0 else second
    session().auto_second = second
    selection.change(layer_b=second[0], head_b=second[1])
    return selection.of(Compare)


def follow(view: Compare) -> Compare:
    """Return the view whose panels on the page's former run have its present one."""
    run = view.run
    present: dict[str, Any] = dict(zip(Pin._fields, run, strict=False))
    visit, before = session().board_run or (0, run)
    session().board_run = session().visits, run
    if visit != session().visits or before == run or is_history_navigation():
        return view
    _keep([pin._replace(**present) if pin[:4] == before else pin for pin in view.pins])
    return selection.of(Compare)


def add(board: Sequence[Pin], view: Compare, pin: Pin) -> None:
    """Add a head to a board, in place of a second one that nobody has chosen."""
    is_automatic = len(view.pins) < 2 and not two_runs(view)
    is_automatic &= view.second == session().auto_second
    _keep([*(board[:1] if is_automatic else board), pin])


def heading(title: str, pins: Sequence[Pin]) -> None:
    """Draw a title, and the button that puts these heads behind those on the board."""

    def open_board() -> None:
        _keep([*selection.of(Compare).pins, *pins])

    options: dict[str, Any] = {"key": "to-board", "type": "primary"}
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(title, anchor=False, width="content")
        st.button("Compare on the board", on_click=guarded(open_board), **options)


def edit(board: Sequence[Pin], edit: Edit) -> None:
    """Move a head of a board, remove it, or write its note."""
    pins = list(board)
    pin = pins.pop(edit.panel)
    if edit.action != "remove":
        at = max(edit.panel + {"left": -1, "right": 1}.get(edit.action, 0), 0)
        pins.insert(at, pin._replace(note=edit.text) if edit.action == "note" else pin)
    _keep(pins)


def replace_head(board: Sequence[Pin], letters: str, head: Head) -> None:
    """Show another head, by its layer's number, in some panels of a board."""
    pairs = zip(LETTERS, board, strict=False)
    layer, number = head
    _keep([p._replace(layer=layer, head=number) if letter in letters else p for letter, p in pairs])


def _keep(pins: Sequence[Pin]) -> None:
    selection.change(pins=unique_pins(pins), section="board")
