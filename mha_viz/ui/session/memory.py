"""What outlives one run of the page: the libraries, loaded models, and records of recent texts."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import threading
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mha_viz.errors import ArgumentError, MhaVizError
from mha_viz.ui.session import give_back
from mha_viz.ui.session.cache import MIB, Cache, Visitor

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.induction import InductionScores

MAX_MODELS = 3
MAX_RECORD = 256 * MIB  # of all that one text leaves behind: longer texts are cut, with a note
# By name, because the parts of the pages import this module.
HEAVY = (
    "mha_viz.checkpoints.loading",
    "mha_viz.ui.explore.drawing",
    "mha_viz.ui.compare",
    "mha_viz.ui.intervene",
)
STAYS = 15  # seconds in which a page whose connection broke finds its session again


class _Engine:
    """torch, transformers and plotly, imported once, in a thread of their own."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._load, daemon=True)
        self.thread.start()

    def _load(self) -> None:
        try:
            for name in HEAVY:
                import_module(name)
            # Streamlit collects garbage after every run of a page. What the libraries hold stays
            # anyway: without it, a run takes a quarter of a second less.
            gc.collect()
            gc.freeze()
        except BaseException as error:
            self.error = error

    def wait(self) -> None:
        self.thread.join()
        if self.error is not None:
            raise self.error


@st.cache_resource(show_spinner=False)
def _engine() -> _Engine:
    return _Engine()


def warm_up() -> None:
    """Begin to import the heavy libraries; returns at once."""
    _engine()


def late(name: str) -> ModuleType:
    """A module that needs torch, transformers or plotly, once those are there."""
    engine = _engine()
    if engine.thread.is_alive():
        with st.spinner("Waking up: loading torch and transformers (once) …"):
            engine.wait()
    engine.wait()
    return import_module(name)


@st.cache_resource(max_entries=MAX_MODELS, show_spinner=False)
def model(name: str, device: str, dtype: str) -> AttentionModel:
    """A loaded model, shared by all users; the least recently used one is let go."""
    from mha_viz.checkpoints.loading import load

    loaded = load(name, device=device, dtype=dtype)
    loaded.cut_texts(MAX_RECORD)
    return loaded


@st.cache_resource(max_entries=1, show_spinner=False)
def untrained_copy(name: str, device: str, dtype: str) -> AttentionModel | None:
    """The same architecture with random weights: what a model scores that has learned nothing.

    None where a config does not say how to build the model anew.
    """
    from mha_viz.checkpoints.untrained_copy import untrained_copy

    try:
        untrained = untrained_copy(model(name, device, dtype))
    except MhaVizError:
        return None
    untrained.cut_texts(MAX_RECORD)
    return untrained


@st.cache_resource(max_entries=2 * MAX_MODELS, show_spinner=False)
def induction(
    name: str, device: str, dtype: str, part: str, random: bool
) -> InductionScores | None:
    """What the probe with random repeated tokens found in a model; it does not depend on a text.

    None where the probe cannot be run: too few positions, or too few tokens in the vocabulary.
    """
    from mha_viz.reports.induction import induction_scores

    probed = (untrained_copy if random else model)(name, device, dtype)
    try:
        return None if probed is None else induction_scores(probed, part=part)
    except ArgumentError:
        return None


# -- what visitors look at -------------------------------------------------------------------------


@functools.cache
def cache() -> Cache:
    """One for all visitors: those who look at the same text share what was made of it."""
    return Cache(who=_who, on_drop=give_back.soon)


def _who() -> Visitor | None:
    return None if get_script_run_ctx(suppress_warning=True) is None else _visitor()


def _gone(visitor: Visitor) -> None:
    """Streamlit calls this when a page's connection ends, on its event loop."""
    cache().leave(visitor)
    with contextlib.suppress(RuntimeError):  # elsewhere (cleared caches) no page was closed
        loop = asyncio.get_running_loop()
        loop.call_later(STAYS, _close, visitor.session)


@st.cache_resource(scope="session", show_spinner=False, on_release=_gone)
def _visitor() -> Visitor:
    context = get_script_run_ctx()
    return Visitor("" if context is None else context.session_id)


def _close(session: str) -> None:
    """End a session that did not come back: Streamlit keeps it until somebody else leaves."""
    if runtime.exists() and not runtime.get_instance().is_active_session(session):
        runtime.get_instance().close_session(session)
        give_back.soon()
