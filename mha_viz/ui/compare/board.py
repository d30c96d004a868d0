"""The board: pinned heads of any models and texts beside each other, with notes and files."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from mha_viz.core.layer_numbers import is_counted
from mha_viz.core.metrics import METRICS
from mha_viz.errors import ArgumentError
from mha_viz.plots.heatmap import head_heatmap
from mha_viz.plots.static import head_image
from mha_viz.plots.worksheet import HeadCard, board_html, board_zip
from mha_viz.reports.description import describe
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.compare.pair import NARROW
from mha_viz.ui.run import memory, reporting, scene
from mha_viz.ui.state import state, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.layer_numbers import by_position
from mha_viz.ui.state.link_values import MAX_PINS, UNTRAINED, Pin
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls, lazy_sections, token_window
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages.messages import continue_on_error, plain
from mha_viz.web.labels import head_name

_ACROSS = 3  # cards side by side
_MOVES = (("Move left", "arrow_back", -1), ("Move right", "arrow_forward", 1))
Shown = tuple[
    HeadCard, scene.Scene, views.View
]  # a card, and the run and view that its picture is made of


def draw(first: scene.Scene) -> None:
    """Draw a card for each pin, and the ways to hand them on."""
    pins = state.of(views.Compare).pins
    if len(pins) < 2:
        st.info(TEXTS(f"board.{'one' if pins else 'none'}", most=MAX_PINS), icon=":material/keep:")
    tools = st.container(horizontal=True, vertical_alignment="bottom")
    columns = [one for _ in pins[::_ACROSS] for one in st.columns(_ACROSS, gap="small")]
    shown: list[Shown] = []
    for i, pin in enumerate(pins):
        head: dict[str, Any] = dict(zip(Pin._fields[:-1], pin, strict=False), query=-1, key=-1)
        head["layer_numbers"] = ()  # a pin has the number of its layer
        with columns[i], st.container(border=True, gap="small"):
            with continue_on_error():
                shown.append(_card(i, pin, replace(state.of(views.View), **head, window=())))
            _edits(i, pin, len(pins))
            if not pin.model.endswith(UNTRAINED):  # Heads shows no untrained copies
                controls.page_button("heads", "Open in Heads", i, **head)
    if shown:
        with tools:
            choosing.menu("scale", "Colour scale", views.SCALES, width=150)
            with st.container(width="content"):
                lazy_sections.popover(*lazy_sections.EXPORT, "board-export", partial(_files, shown))
            exports.link_menu()


def _card(i: int, pin: Pin, view: views.View) -> Shown:
    """Draw one card. Raises MhaVizError, once it is named, if its head cannot be shown any more."""
    name, text = head_name(pin.layer, pin.head), " | ".join(filter(None, (pin.text, pin.pair)))
    st.header(name, anchor=False)
    st.caption(plain(f"{pin.model} · “{text if len(text) <= 200 else text[:199] + '…'}”"))
    base = view.model.removesuffix(UNTRAINED)
    if base not in (*controls.other_models(), state.current().model):
        raise ArgumentError(f"The model {base!r} is not on this machine.")
    if memory.needs_check(base, view.device, view.dtype):
        memory.check(base)
    run = scene.other(view)
    numbers = run.record.layer_numbers
    view = by_position(view, () if is_counted(numbers) else numbers)
    if not scene.is_head(run.record, view.chosen):
        raise ArgumentError(scene.no_such_head(run.record, pin.layer, pin.head))
    report = reporting.report(run, view)
    sentence = describe(run.record, (pin.layer, pin.head), report=report).sentences[0].text
    labels = ", ".join(one.label.title for one in report.labels[view.layer][view.head])
    lines = {"Sentence": text, "In words": sentence, "Labels": labels or "none", "Note": pin.note}
    card = HeadCard(
        f"{name} of {pin.model}" + ("" if pin.part == "self" else f" ({pin.part})"),
        {key: line for key, line in lines.items() if line},
        {METRICS[key].title: float(own[view.chosen]) for key, own in report.scores.items()},
    )
    shown, weights, seen = token_window.shown_head(run.record, view.chosen, view)
    size, dark = look.square(NARROW, NARROW), look.dark()
    figure = head_heatmap(weights, shown.labels, scale=view.scale, dark=dark, visible=seen, **size)
    figures.chart(figure, key=f"pin-{i}", alt=f"Attention weights of {card.title}", tools=False)
    st.markdown(plain(sentence))
    if labels:
        st.caption(f":material/label: {labels}")
    return card, run, view


def _edits(i: int, pin: Pin, n_pins: int) -> None:
    hint, name = "A note, one line", f"Note on {head_name(pin.layer, pin.head)}"
    options = dict(placeholder=hint, max_chars=200, label_visibility="collapsed")
    take = partial(_edit, pin, 0)
    state.control(f"pin-note-{i}", st.text_input, name, value=pin.note, take=take, **options)
    with st.container(horizontal=True, gap="xsmall"):
        for label, icon, by in (*_MOVES, ("Remove", "close", None)):
            out = by is not None and not 0 <= i + by < n_pins
            key, icon = f"pin-{icon}-{i}", f":material/{icon}:"
            st.button(label, key=key, icon=icon, disabled=out, on_click=_edit, args=(pin, by))


@guarded
def _edit(pin: Pin, by: int | None, raw: str | None = None) -> None:
    """Move a pin by so many places, or take it off where that is None; or write its note."""
    pins = list(state.of(views.Compare).pins)
    for at in [at for at, one in enumerate(pins) if one.is_in([pin])]:
        one = pins.pop(at)
        if by is not None:
            pins.insert(max(at + by, 0), one if raw is None else one._replace(note=raw))
    state.change(pins=tuple(pins))


def _files(shown: Sequence[Shown]) -> None:
    """Draw the downloads, which make the pictures at a click and then ask nothing of the page."""
    view = state.of(views.View)
    link = "" if views.is_long("pins", views.written(view.pins)) else exports.link(view)

    def cards() -> list[HeadCard]:
        png = partial(exports.head_file, head_image, file_format="png")
        return [card._replace(picture=png(view=view)(run.record)) for card, run, view in shown]

    exports.download("HTML", "pins.html", lambda: board_html(cards(), link), key="board-html")
    exports.download("Markdown", "pins.zip", lambda: board_zip(cards(), link), key="board-zip")
