"""Continuation of the sentence by a causal model; the grid grows with each token."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.prediction.generation import end_token_ids
from mha_viz.prediction.logits import objective
from mha_viz.ui.heads import TEXTS
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.run.written import Shown, WrittenScene, forget, shown, written_scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.allowed import most_written
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import HeadsView
from mha_viz.ui.widgets.components.written_text import written_text
from mha_viz.ui.widgets.controls.sentence_bar import Bar
from mha_viz.ui.widgets.messages.notices import plain, stop_on_error

_OPENS = {  # the button's label and icon
    False: ("Continue the text", ":material/edit_note:"),
    True: ("Close the continued text", ":material/close:"),
}


class _Playing(NamedTuple):
    """The player's progress on one visit of the page; the address waits until it rests."""

    start: WrittenScene
    written: int
    visit: int


def continued(scene: Scene, view: HeadsView, bar: Bar) -> Scene:
    """Draw the panel and its button, where the model can write; return the scene for the rest."""
    with stop_on_error():
        model = memory.model(*view.checkpoint)
        if scene.pair or not model.causal or objective(model.network) != "causal":
            forget()
            return scene
        target = written_scene(scene, view, _n_tokens(scene, view))
        if session().is_writing is None:
            session().is_writing = target.written > 0
        is_open = bool(session().is_writing)
        label, icon = _OPENS[is_open]
        options: dict[str, Any] = {"key": "continue", "icon": icon, "help": TEXTS("writing.panel")}
        bar.beside.button(label, on_click=_open, args=(not is_open,), **options)
        if not is_open and not target.written:
            forget()
            return scene
        try:
            written = shown(_without_invalid_branches(target, model), model)
        except MhaVizError as error:
            st.info(plain(str(error)))
            return scene
        if is_open:
            with st.container(border=True, key="writing"):
                _panel(written, model)
        return written.scene if written.tokens else scene


@guarded
def _open(is_open: bool) -> None:
    session().is_writing = is_open


def is_playing(scene: Scene) -> bool:
    """Return whether the player is about to write on behind this scene."""
    playing: _Playing | None = session().player
    return (
        playing is not None
        and isinstance(scene, WrittenScene)
        and playing.start == scene.start
        # Closed, or left for another page, the player has stopped without a word.
        and bool(session().is_writing)
        and playing.visit == session().visits
    )


def _n_tokens(scene: Scene, view: HeadsView) -> int:
    """Return how many tokens to write: as far as the player is, or as the view says."""
    playing: _Playing | None = session().player
    if playing is not None and playing.start == written_scene(scene, view, 0).start:
        return min(playing.written, most_written())
    return min(view.written, most_written())


def _without_invalid_branches(scene: WrittenScene, model: AttentionModel) -> WrittenScene:
    """Drop branches that this model does not know or that end the text; a link may have any."""
    ends = end_token_ids(model)
    valid = tuple(
        (position, number)
        for position, number in scene.branches
        if number < model.d_vocab and number not in ends
    )
    if valid != scene.branches:
        st.warning(TEXTS("writing.invalid_branches"), icon=":material/link_off:")
    return replace(scene, branches=valid)


def _panel(written: Shown, model: AttentionModel) -> None:
    most = min(written.room, most_written())
    _settings(written)
    written_text(
        written,
        most=most,
        ends=end_token_ids(model),
        status=_status_line(written, most),
        key=f"written-{hash(written.scene.start)}",  # a new text or setting is a new player
        on_step=partial(_go, written.scene),
        on_branch=partial(_branch, written),
    )


def _settings(written: Shown) -> None:
    drawing = written.scene.temperature > 0
    with st.container(horizontal=True, vertical_alignment="bottom"):
        # Chosen tokens have no place in a text drawn in another way. Ends are of one type.
        forget_branches = partial(selection.change, branches=())
        for name, label, most, step, hint in (
            ("next_temperature", "Temperature", 5.0, 0.1, TEXTS("writing.temperature")),
            ("next_top_k", "Top-k", 9_999, 1, TEXTS("writing.top_k")),
            ("next_seed", "Seed", 999_999_999, 1, TEXTS("writing.seed")),
        ):
            ends, off = (0 * most, most), not drawing and name != "next_temperature"
            options: dict[str, Any] = {"step": step, "width": 130, "help": hint, "disabled": off}
            selection.bound(name, st.number_input, label, *ends, also=forget_branches, **options)
        use, options = partial(selection.change, text=written.text), TEXTS.control("use_written")
        st.button(key="use_written", disabled=not written.tokens, on_click=guarded(use), **options)


def _status_line(written: Shown, most: int) -> str:
    n = len(written.tokens)
    if n >= most:
        return (
            f"{n} tokens written: {'the model takes' if n == written.room else 'here are'} no more"
        )
    if written.finished:
        return f"{n} tokens written: the model ends the text here"
    return f"{n} of up to {most} tokens written"


def _go(scene: WrittenScene, to: int, playing: bool) -> None:
    player = _Playing(scene.start, to, session().visits)
    session().player = player if playing else None
    if not playing:
        selection.change(written=to)


def _branch(written: Shown, at: int, number: int) -> None:
    session().player = None
    before = tuple(branch for branch in written.scene.branches if branch[0] < at)
    n_prompt = written.coming.position - len(written.tokens)
    selection.change(branches=(*before, (at, number)), written=at - n_prompt + 1)
