"""The bar on top of every page: the model, the sentence, and the options that few runs need."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.core.names import DEVICES, DTYPES
from mha_viz.ui.operating.streamlit_run import script_component
from mha_viz.ui.state import allowed, selection, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.layer_numbers import chosen_pin
from mha_viz.ui.state.link_values import MAX_URL_TEXT, unique_pins
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, fetching, model_menus

_ABOUT_DTYPES = (
    "bfloat16 and float16 take half of the memory; auto is what config.json names. Attention "
    "weights are always shown as float32."
)
_ABOUT_PAIRS = "BERT reads two sentences at once, with [SEP] between them."
_NO_PAIRS = "This model takes one text."


class Bar(NamedTuple):
    """The containers of a bar that are filled once the facts of the model are known."""

    pair_switch: DeltaGenerator  # in the options
    model_facts: DeltaGenerator  # likewise
    second_row: DeltaGenerator  # below the sentence, without height while it is empty
    middle: DeltaGenerator  # in place of the sentence, where a page has none
    beside: DeltaGenerator  # beside the options, for a button


def bar(text: bool = True) -> Bar:
    """Draw the model, the sentence with its button, and the options in one row."""
    widths = [2, 9, 0.9, 0.7] if text else [2, 9.9, 0.7]
    with st.container(key="bar", gap=None):
        columns = st.columns(widths, gap="small", vertical_alignment="top")
        options: dict[str, Any] = {"horizontal": True, "vertical_alignment": "center"}
        second_row = st.container(key="bar-second-row", **options)
    with columns[0]:
        model_menus.model_picker()
    middle = columns[1].container()
    if text:
        with middle:
            _sentence_box()
        with columns[2]:
            hint = "The same as Enter in the sentence"
            look: dict[str, Any] = {"key": "run_text", "type": "primary", "help": hint}
            st.button("Run", on_click=_forget_stopped, **look)
    with columns[-1], st.container(horizontal=True, gap="xsmall", horizontal_alignment="right"):
        beside = st.empty()
        return Bar(*_options(text), second_row, middle, beside)


def _options(text: bool) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Draw the options; return the containers of the pair's switch and of the model's facts."""
    with st.popover("Options", icon=":material/tune:"), st.container(key="options-menu"):
        if text:
            _examples()
            _other_sentence()
        pair_switch = st.container()
        choosing.menu("device", "Run on", DEVICES)  # the defaults are right for most people
        choosing.menu("dtype", "Number format", DTYPES, help=_ABOUT_DTYPES)
        look.projector_switch()
        return pair_switch, st.container()


@guarded
def _forget_stopped() -> None:
    """Let a sentence run that was stopped."""
    session().stopped = None


def _sentence_box() -> None:
    forget_tokens = partial(
        selection.change, query=-1, key=-1
    )  # of the text before; the head stays
    hint = "Type a sentence and press Enter"
    options: dict[str, Any] = {"placeholder": hint, "label_visibility": "collapsed"}
    with st.container(gap=None):
        selection.bound(
            "text", st.text_area, "Sentence", also=forget_tokens, height="content", **options
        )
        script_component("sentence_bar")(key="sentence-script")


def _other_sentence() -> None:
    """Draw the box of another sentence, on which the chosen head is compared."""

    def take(text: str) -> None:
        if not text.strip():
            return
        allowed.check_text(text)
        view = selection.of(views.Compare)
        pin = chosen_pin(view)
        pair = "" if pin.part == "self" else pin.pair
        other = pin._replace(text=text, pair=pair)
        selection.change(pins=unique_pins([*view.pins, pin, other]), section="board")
        session().leads_to = "board"

    options: dict[str, Any] = {"placeholder": "Another sentence", "max_chars": 4 * MAX_URL_TEXT}
    selection.control(
        "compare-text", st.text_input, "+ Compare with", value="", take=take, **options
    )
    if session().leads_to == "board":
        session().leads_to = ""
        if session().page != "compare":
            st.switch_page(session().pages["compare"], query_params=selection.share_params())


def second_text(bar: Bar, parts: tuple[str, ...], accepts_pair: bool) -> None:
    """Draw the decoder's text or the second sentence in the bar's second row, where there is one.

    An encoder-decoder always has its box; a second sentence gets one when a switch in the options
    is on, or when there is one already.
    """
    is_decoder = len(parts) > 1
    with bar.pair_switch:
        is_shown = is_decoder or _pair_switch(accepts_pair)
    if not accepts_pair:
        selection.change(pair="")
        return
    if not is_shown:
        return
    label = "Decoder's text" if is_decoder else "Second sentence"
    options: dict[str, Any] = {"placeholder": label, "label_visibility": "collapsed"}
    with bar.second_row:
        selection.bound("pair", st.text_input, label, **options)


def _pair_switch(accepts_pair: bool) -> bool:
    def take(is_on: bool) -> None:
        session().has_pair_box = is_on
        if not is_on:
            selection.change(pair="", query=-1, key=-1)

    wanted = bool(selection.current().pair or session().has_pair_box)
    return selection.control(
        "sentence_pair",
        st.toggle,
        "Sentence pair (BERT)",
        value=accepts_pair and wanted,
        take=take,
        disabled=not accepts_pair,
        help=_ABOUT_PAIRS if accepts_pair else _NO_PAIRS,
    )


def part_picker(parts: tuple[str, ...]) -> None:
    """Draw the choice of an encoder-decoder's stack."""
    if selection.current().part not in parts:
        selection.change(part=parts[0])
    if len(parts) > 1:
        titles = {part: views.PARTS[part] for part in parts}
        choosing.segments("part", "Part", titles, label_visibility="collapsed")


def _examples() -> None:
    titles = {example.title: example for example in allowed.examples()}

    def choose(title: str) -> None:
        example = titles[title]
        session().problems = []
        session().names_model = session().has_pair_box = False
        fetching.select("")
        selection.change(
            text=example.text, pair=example.pair, model=example.model, query=-1, key=-1
        )
        layer, head = example.head or (-1, -1)
        selection.change(layer=layer, head=head)

    options: dict[str, Any] = {"placeholder": "Try an example", "index": None}
    choices = "Examples", list(titles)
    selection.control("ask_example", st.selectbox, *choices, value=None, take=choose, **options)
