"""A text that a model continues, as a scene, with the run that wrote it."""

import threading
import time
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.generation import GeneratedToken
from mha_viz.prediction.writing import Writing
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import PATIENCE
from mha_viz.ui.run.scene import Run, Scene, measured
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import HeadsView


@dataclass(frozen=True)
class WrittenScene(Scene):
    """A text and what a model wrote behind it, by its name; the same name gives the same text.

    Tokens are drawn as in `Writing`.
    """

    temperature: float = 0.0
    top_k: int | None = None
    seed: int = 0
    branches: tuple[tuple[int, int], ...] = ()  # (position, token) of those that somebody chose
    written: int = 0  # tokens asked for; the model may have ended the text before

    @property
    def start(self) -> "WrittenScene":
        """The same text before anything was written and chosen."""
        return replace(self, branches=(), written=0)

    def run(self) -> Run:
        """Return the run that wrote the text; it stays with the session, not in the cache."""
        return shown(self, memory.model(self.model, self.device, self.dtype)).run


@dataclass(frozen=True)
class Shown:
    """Contents of a written scene."""

    scene: WrittenScene
    run: Run
    text: str
    tokens: tuple[GeneratedToken, ...]
    coming: GeneratedToken  # of the next step; the end token where the model ends the text
    finished: bool
    room: int  # tokens that fit behind the typed text


@dataclass
class _Writer:
    """A session's writer of one text at a time.

    A newer run of the page waits, while the overtaken one ends with the layer that it is in.
    """

    lock: threading.Lock
    writing: Writing | None = None
    start: WrittenScene | None = None
    shown: Shown | None = None


def written_scene(scene: Scene, view: HeadsView, written: int) -> WrittenScene:
    """Return a scene's text with so many tokens behind it, written as the view says."""
    return WrittenScene(
        *(scene.model, scene.device, scene.dtype, scene.part, scene.text, scene.pair),
        temperature=view.next_temperature,
        top_k=view.next_top_k or None,
        seed=view.next_seed,
        branches=view.branches,
        written=written,
    )


def shown(scene: WrittenScene, model: AttentionModel) -> Shown:
    """Return what the scene shows, found on the session's writer or written there.

    Raises ArgumentError, AttentionUnavailableError, TextError: as `Writing`.
    """
    if session().writer is None:
        session().writer = _Writer(threading.Lock())
    writer: _Writer = session().writer
    with writer.lock:
        written = writer.shown
        if written is None or written.scene != scene:
            written = writer.shown = _write(writer, scene, model)
        return written


def forget() -> None:
    """Drop the steps and their model: nothing is written now."""
    session().writer = None


def _write(writer: _Writer, scene: WrittenScene, model: AttentionModel) -> Shown:
    bar, start = st.empty(), time.perf_counter()
    n = 0

    def on_layer(layer: int) -> None:
        # When it draws, Streamlit also ends a run that a click or a newer text has overtaken.
        if time.perf_counter() - start > PATIENCE:
            bar.progress(min(n / max(scene.written, 1), 1.0), f"Token {n} of {scene.written}")

    if writer.writing is None or writer.start != scene.start or writer.writing.model is not model:
        writer.writing = None
        top_k = None if scene.top_k is None else min(scene.top_k, model.d_vocab)
        drawn: dict[str, Any] = {"temperature": scene.temperature, "seed": scene.seed}
        writer.writing = Writing(model, scene.text, top_k=top_k, on_layer=on_layer, **drawn)
        writer.start = scene.start
    writing, chosen = writer.writing, dict(scene.branches)
    surplus = len(writing) - _n_matching(writing, chosen, scene.written)
    if surplus:
        writing.back(surplus, on_layer)
    while (n := len(writing)) < scene.written:
        position = writing.n_prompt + n
        if position in chosen and not writing.is_full:
            writing.branch(position, chosen[position], on_layer)
        elif writing.step(on_layer) is None:
            break
    record = writing.record
    seconds = time.perf_counter() - start
    bar.empty()
    run, room = Run(record, measured(record), seconds), model.n_ctx - writing.n_prompt
    state = writing.text, writing.written, writing.upcoming, writing.finished
    return Shown(scene, run, *state, room)


def _n_matching(writing: Writing, chosen: dict[int, int], most: int) -> int:
    """Count the leading tokens, at most `most`, that match the chosen branches."""
    for i, token in enumerate(writing.written[:most]):
        branch = chosen.get(token.position)
        if token.branched != (branch is not None) or (branch is not None and token.id != branch):
            return i
    return min(len(writing), most)
