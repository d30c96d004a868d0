"""A causal model goes on with the sentence, token by token; the grid grows with each."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.prediction.logits import objective
from mha_viz.prediction.written_text import end_ids
from mha_viz.ui.session import memory, state
from mha_viz.ui.session.allowed import most_written
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.session.written import Shown, WrittenScene, forget, shown, written_scene
from mha_viz.ui.widgets.messages import plain, stop_on_error
from mha_viz.ui.widgets.written_text import written_text

PANEL = "The model writes on, token by token, and the grid grows with each."
TOP_K = "Tokens are drawn among so many of the likeliest ones; 0 is all."
TEMPERATURE = "0 takes the likeliest token each time; the higher, the more surprises."
NOT_ITS_OWN = (
    "Some tokens that the link chooses are none that this model can write: they are left out."
)
SEED = "One seed gives the same text again; another one gives another text."


class _Playing(NamedTuple):
    """How far the player has come on one visit of the page; the address waits until it rests."""

    start: WrittenScene
    written: int
    visit: int


def going_on(scene: Scene, row: DeltaGenerator) -> Scene:
    """The panel, where the model can write; returns what the rest of the page is to show.

    Args:
        scene: the sentence alone.
        row: the place of the switch that opens the panel.

    Returns:
        The text with what was written, or the sentence alone where nothing was.
    """
    with stop_on_error():
        model = memory.model(*state.current().checkpoint)
        if scene.pair or not model.causal or objective(model.network) != "causal":
            forget()
            return scene
        wanted = written_scene(scene, state.current(), _wanted(scene))
        st.session_state.setdefault("writing-open", wanted.written > 0)
        is_open = row.toggle("Let it go on", key="writing-open", help=PANEL)
        if not is_open and not wanted.written:
            forget()
            return scene
        try:
            found = shown(_without_nonsense(wanted, model), model)
        except MhaVizError as error:
            st.info(plain(str(error)))
            return scene
        if is_open:
            with st.container(border=True):
                _panel(found, model)
        return found.scene if found.tokens else scene


def plays(scene: Scene) -> bool:
    """Whether the player goes on behind what the page shows, so that the next step is near.

    Args:
        scene: what `going_on` returned.
    """
    playing: _Playing | None = st.session_state.get("writing_plays")
    return (
        playing is not None
        and isinstance(scene, WrittenScene)
        and playing.start == scene.start
        # Closed, or left for another page, the player has stopped without a word.
        and bool(st.session_state.get("writing-open"))
        and playing.visit == st.session_state.get("visit", 0)
    )


def _wanted(scene: Scene) -> int:
    """How many tokens are to be written: as far as the player is, or as the view says."""
    playing: _Playing | None = st.session_state.get("writing_plays")
    view = state.current()
    if playing is not None and playing.start == written_scene(scene, view, 0).start:
        return min(playing.written, most_written())
    return min(view.written, most_written())


def _without_nonsense(scene: WrittenScene, model: AttentionModel) -> WrittenScene:
    """Without branches that this model does not know or that end the text; a link may have any."""
    ends = end_ids(model)
    known = tuple(
        (at, number)
        for at, number in scene.branches
        if number < model.d_vocab and number not in ends
    )
    if known != scene.branches:
        st.warning(NOT_ITS_OWN, icon=":material/link_off:")
    return replace(scene, branches=known)


def _panel(found: Shown, model: AttentionModel) -> None:
    n, last = len(found.tokens), min(found.room, most_written())
    _settings(found)
    # A new text or setting is a new player, which rests.
    written_text(
        found.tokens,
        None if n >= last else found.coming,
        last=n if found.finished else last,
        drawing=found.scene.temperature > 0,
        ends=end_ids(model),
        said=_said(found, last),
        key=f"written-{hash(found.scene.start)}",
        on_step=lambda to, playing: _go(found.scene, to, playing),
        on_branch=lambda at, number: _branch(found, at, number),
    )


def _settings(found: Shown) -> None:
    drawing = found.scene.temperature > 0
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.bound(
            "next_temperature",
            st.number_input,
            "Temperature",
            min_value=0.0,
            max_value=5.0,
            step=0.1,
            width=130,
            help=TEMPERATURE,
            also=_begin_anew,
        )
        for name, label, most, hint in (
            ("next_top_k", "Top-k", 9_999, TOP_K),
            ("next_seed", "Seed", 999_999_999, SEED),
        ):
            state.bound(
                name,
                st.number_input,
                label,
                min_value=0,
                max_value=most,
                step=1,
                width=130,
                help=hint,
                disabled=not drawing,
                also=_begin_anew,
            )
        st.button(
            "Use as the sentence",
            key="use_written",
            disabled=not found.tokens,
            on_click=_use,
            args=(found.text,),
            help="The whole text becomes the sentence, for every page.",
        )


def _said(found: Shown, last: int) -> str:
    n = len(found.tokens)
    if n >= last:
        return f"{n} tokens written: {'the model takes' if n == found.room else 'here are'} no more"
    if found.finished:
        return f"{n} tokens written: the model ends the text here"
    return f"{n} of up to {last} tokens written"


@guarded
def _use(text: str) -> None:
    state.change(text=text)


def _begin_anew() -> None:
    """Drawn in another way the text is another one, where chosen tokens have no place."""
    state.change(branches=())


def _go(scene: WrittenScene, to: int, playing: bool) -> None:
    visit = st.session_state.get("visit", 0)
    st.session_state.writing_plays = _Playing(scene.start, to, visit) if playing else None
    if not playing:
        state.change(written=to)


def _branch(found: Shown, at: int, number: int) -> None:
    st.session_state.writing_plays = None
    before = tuple(one for one in found.scene.branches if one[0] < at)
    n_prompt = found.coming.position - len(found.tokens)
    state.change(branches=(*before, (at, number)), written=at - n_prompt + 1)
