"""The board: up to nine heads of any models and sentences, with cells of one size on one axis."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.layer_numbers import number_at
from mha_viz.core.metrics import METRICS
from mha_viz.plots.board import board_image
from mha_viz.plots.worksheet import HeadCard, board_html
from mha_viz.reports.description import describe
from mha_viz.ui.compare import TEXTS, details, panels
from mha_viz.ui.compare.panels import Panel
from mha_viz.ui.run.page_lock import yield_slot
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import allowed, links, selection, views
from mha_viz.ui.state.layer_numbers import chosen_pin
from mha_viz.ui.state.link_values import MAX_PINS, MAX_URL_TEXT, UNTRAINED, Pin, written
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets.components.board import Edit, board
from mha_viz.ui.widgets.components.component import carry
from mha_viz.ui.widgets.controls import choosing, lazy_sections, model_menus, token_window
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words
from mha_viz.web.board import MAX_PLACES, BoardAxes, board_payload, verdict_payload
from mha_viz.web.payload import unpack

WAITING = "Comparing the heads …"


def draw(first: Scene, view: Compare) -> None:
    """Draw the heads of the board, what tells them apart, and what adds others."""
    view = panels.fit_second(first, panels.follow(view))
    pins = panels.pins_of(first, view)
    with st.container(horizontal=True, vertical_alignment="bottom", key="board-tools"):
        _adders(first, view, pins)
    heads = panels.compute(first, view)
    drawn = [panel for panel in heads if panel.run is not None]
    shown = [panel.drawn() for panel in heads]
    axes = BoardAxes.of(shown)
    payload = board_payload(shown, axes)
    board(
        payload,
        key="board",
        scale=view.scale,
        window=view.window,
        waiting=WAITING,
        actions=[_actions(at, len(pins), panel) for at, panel in enumerate(heads)],
        on_edit=partial(_edit, pins),
    )
    _follow_edit(pins)
    longest = max((len(axis[0]) for axis in axes if axis), default=0)
    if longest <= MAX_PLACES:
        token_window.slider(longest)
    yield_slot()
    with st.container(gap=None):
        carry(_verdict(payload, heads, axes), key="board-notes")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        hint: dict[str, Any] = {
            "placeholder": "Name of this board",
            "label_visibility": "collapsed",
        }
        selection.bound(
            "board", st.text_input, "Name of this board", max_chars=100, width=240, **hint
        )
        if drawn:
            files = partial(_files, view, drawn)
            with st.container(width="content"):
                lazy_sections.popover(*lazy_sections.EXPORT, "board-export", files)
        downloads.link_menu()
    if drawn:
        lazy_sections.expander("As a table", "board-table", partial(_table, drawn))
    if len(drawn) > 1:
        draw_details = partial(_details, pins, drawn)
        lazy_sections.expander("In detail", "details", draw_details)


def _adders(first: Scene, view: Compare, pins: tuple[Pin, ...]) -> None:
    """Draw one control that replaces the first head and one that adds a head."""
    if not view.pins:
        choosing.head_menus(first.record.n_layers, first.record.n_heads)
    choosing.menu("scale", "Colour scale", views.SCALES, width=140)
    if len(pins) == MAX_PINS:
        st.caption(TEXTS("board.full", most=MAX_PINS))
        return
    chosen = chosen_pin(view)
    hint = "Another head" if chosen.is_in(pins) else "On the bar’s text"
    heads = {str(at): name for at, name in enumerate(words.names(first))}

    def add_head(number: str) -> None:
        layer, head = words.head_at(int(number), first)
        layer = number_at(first.record.layer_numbers, layer)
        panels.add(pins, view, chosen._replace(layer=layer, head=head))

    _add_menu("head", "+ Head", hint, heads, add_head)
    models = {name: title for name, title in model_menus.model_titles().items() if name}
    models.pop(pins[0].model, None)

    def add_model(model: str) -> None:
        panels.add(pins, view, panels.same_head(first, pins[0], model=model))

    def add_text(text: str) -> None:
        if text.strip():
            allowed.check_text(text)
            panels.add(pins, view, panels.same_head(first, pins[0], text=text))

    _add_menu("model", "+ Model", "In another model", models, add_model)
    options: dict[str, Any] = {"placeholder": "The same head on another sentence"}
    options |= {"max_chars": 4 * MAX_URL_TEXT, "width": "stretch"}
    selection.control("add-text", st.text_input, "+ Sentence", value="", take=add_text, **options)


def _add_menu(
    name: str, label: str, hint: str, offered: dict[str, str], take: Callable[[str], object]
) -> None:
    options: dict[str, Any] = {"index": None, "placeholder": hint, "width": 170}
    options["format_func"] = lambda value: offered.get(value, value)
    selection.control(
        f"add-{name}", st.selectbox, label, list(offered), value=None, take=take, **options
    )


def _actions(at: int, count: int, panel: Panel) -> list[str]:
    ends = {"left": at > 0, "right": at < count - 1, "remove": count > 2}
    actions = [action for action, is_offered in ends.items() if is_offered and count > 1]
    if not panel.pin.model.endswith(UNTRAINED):  # Heads shows no untrained copies
        actions.append("heads")
    return [*actions, "note"]


def _edit(pins: tuple[Pin, ...], edit: Edit) -> None:
    if edit.action == "heads":
        session().opened_panel = edit.panel
    else:
        panels.edit(pins, edit)


def _follow_edit(pins: tuple[Pin, ...]) -> None:
    """Open a panel's head on Heads, where that was asked for."""
    at, session().opened_panel = session().opened_panel, None
    if at is not None and at < len(pins):
        chosen: dict[str, Any] = dict(zip(Pin._fields[:-1], pins[at], strict=False))
        selection.change(**chosen, query=-1, key=-1, layer_numbers=())
        st.switch_page(session().pages["heads"], query_params=selection.share_params())


# -- what tells them apart -------------------------------------------------------------------------


def _verdict(payload: bytes, heads: Sequence[Panel], axes: BoardAxes) -> bytes:
    """Pack a sentence on the board's heads, and their labels."""
    drawn = [panel for panel in heads if panel.run is not None]
    labels, marked = [_labels(panel) for panel in heads], [list[list[int]]()] * len(heads)
    if any(panel.scene.is_long for panel in drawn):
        verdict = TEXTS("board.long")
    elif len(drawn) == 2:
        pair = details.compute(drawn[0], drawn[1])
        difference = details.describe(pair)
        verdict = difference.verdict
        cells = _cells(details.marked(pair, difference), axes)
        marked = [cells if panel.run is not None else [] for panel in heads]
    else:
        verdict = _nearest_and_farthest(drawn) if drawn else ""
    return verdict_payload(unpack(payload)[0]["id"], verdict or " ", labels, marked)


def _labels(panel: Panel) -> str:
    """Return a head's labels, and that its text was cut where it was."""
    if panel.run is None:
        return ""
    notes = [note for note in panel.run.record.notes if note.startswith(words.CUT)]
    if panel.run.is_long:
        return " ".join(notes)
    earned = panel.report().labels[panel.head[0]][panel.head[1]]
    return " · ".join([", ".join(label.label.title for label in earned) or "no label", *notes])


def _cells(pairs: Sequence[tuple[int, int]], axes: BoardAxes) -> list[list[int]]:
    """Return pairs of tokens as cells of the board: their indices on its axes."""
    queries, keys = axes.queries[0], axes.keys[0]
    pool = max(1, *(-(-len(axis) // MAX_PLACES) for axis in (queries, keys)))
    return [[queries.index(q) // pool, keys.index(k) // pool] for q, k in pairs]


def _nearest_and_farthest(drawn: Sequence[Panel]) -> str:
    """Say which two of several heads are most alike and which least."""
    if len(drawn) < 2:
        return words.ONE_HEAD
    shares = {
        (a.name, b.name): share
        for a, b in combinations(drawn, 2)
        if np.isfinite(share := details.moved(details.compute(a, b)))
    }
    if not shares:
        return TEXTS("details.no_common")
    least, most = (end(shares, key=shares.__getitem__) for end in (min, max))
    return TEXTS("board.verdict", near=least, share=shares[least], far=most, most=shares[most])


def _details(pins: tuple[Pin, ...], drawn: Sequence[Panel]) -> None:
    """Draw two of the heads in every detail; of more than two, menus choose which."""
    a, b = drawn[0], drawn[1]
    if len(drawn) > 2:
        offered = {f"{a.letter}{b.letter}": (a, b) for a, b in combinations(drawn, 2)}
        titles = {name: f"{a.name} and {b.name}" for name, (a, b) in offered.items()}
        look: dict[str, Any] = {"format_func": titles.__getitem__, "width": 300}
        chosen = st.selectbox("Heads", list(offered), key="details-pair", **look)
        a, b = offered[chosen]

    def choose(head: tuple[int, int]) -> None:
        layer = number_at(a.scene.record.layer_numbers, int(head[0]))
        panels.replace_head(pins, a.letter + b.letter, (layer, int(head[1])))

    details.draw(details.compute(a, b), choose)


# -- tables and files ------------------------------------------------------------------------------


def _table(drawn: Sequence[Panel]) -> None:
    st.dataframe(_weights(drawn), hide_index=True, key="board-rows", placeholder=words.UNDEFINED)


def _weights(drawn: Sequence[Panel]) -> pd.DataFrame:
    """Return the weight of every pair of tokens in all heads, on the board's axes."""
    heads = [panel.drawn() for panel in drawn]
    axes = BoardAxes.of(heads)
    queries, keys = (
        [_names(positions, side, drawn) for positions in zip(*axis, strict=True)]
        for side, axis in enumerate(axes)
    )
    columns = {"Query": np.repeat(queries, len(keys)), "Key": np.tile(keys, len(queries))}
    weights = axes.weights(heads)
    columns |= {head.name: values.ravel() for head, values in zip(heads, weights, strict=True)}
    table = pd.DataFrame(columns)
    return table[table[[head.name for head in heads]].max(axis=1) > 0]


def _names(positions: Sequence[int | None], side: int, drawn: Sequence[Panel]) -> str:
    """Name a position of an axis by the different tokens that the texts have there."""
    labels = [
        (panel.scene.record.key_labels if side else panel.scene.record.labels)[position]
        for panel, position in zip(drawn, positions, strict=True)
        if position is not None
    ]
    return " / ".join(dict.fromkeys(labels))


def _files(view: Compare, drawn: Sequence[Panel]) -> None:
    """Draw the downloads, which make their files at a click and then ask nothing of the page."""
    title = view.board or " and ".join(panel.name for panel in drawn[:2])
    name = downloads.safe_name(title, "board")
    source = "; ".join(words.source(panel.scene.record, panel.name) for panel in drawn)
    is_long = links.is_long("pins", written(view.pins))
    link = "" if is_long else downloads.link(selection.of(views.View))
    cards = [_card(panel) for panel in drawn]

    def picture(panels: Sequence[Panel], **form: str) -> bytes:
        heads = [panel.drawn() for panel in panels]
        return board_image(heads, BoardAxes.of(heads), scale=view.scale, **form)

    def page() -> str:
        both = zip(cards, drawn, strict=True)
        return board_html([card._replace(picture=picture([panel])) for card, panel in both], link)

    with st.container(horizontal=True, gap="xsmall"):
        for form in ("png", "svg", "pdf"):
            make = partial(picture, drawn, file_format=form, title=title, caption=source)
            options: dict[str, Any] = {"key": f"board-{form}", "icon": ":material/image:"}
            downloads.download(form.upper(), f"{name}.{form}", make, **options)
    downloads.data_and_page(name, _weights(drawn), f"{title}\n{source}", page, key="board-files")


def _card(panel: Panel) -> HeadCard:
    report, head = panel.report(), panel.drawn()
    number = panel.pin.layer, panel.pin.head
    sentence = describe(panel.scene.record, number, report=report).sentences[0].text
    lines = {"Sentence": head.text, "In words": sentence, "Labels": _labels(panel)}
    lines |= {"Note": head.note} if head.note else {}
    numbers = {METRICS[key].title: float(v[panel.head]) for key, v in report.scores.items()}
    return HeadCard(f"{head.name} of {head.source}", lines, numbers)
