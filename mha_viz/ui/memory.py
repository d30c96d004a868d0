"""What outlives one run of the page: the libraries, loaded models, and records of recent texts.

Knows streamlit's caches and threads; must not draw anything.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from mha_viz.errors import ArgumentError, MhaVizError

if TYPE_CHECKING:
    from mha_viz.capture.induction import InductionScores
    from mha_viz.capture.model import AttentionModel

MAX_MODELS = 3
MAX_BYTES = 96 * 2**20  # of records, derived pictures and payloads, over all users
T = TypeVar("T")


class _Engine:
    """torch, transformers and plotly, imported once, in a thread of their own."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._load, daemon=True)
        self.thread.start()

    def _load(self) -> None:
        try:
            import mha_viz.capture.loading
            import mha_viz.ui.compare
            import mha_viz.ui.drawing
            import mha_viz.ui.intervene  # noqa: F401

            # Streamlit collects garbage after every run of a page. What the libraries hold stays
            # anyway: left out, a run costs a quarter of a second less.
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
    from mha_viz.capture.loading import load

    return load(name, device=device, dtype=dtype)


@st.cache_resource(max_entries=1, show_spinner=False)
def random_twin(name: str, device: str, dtype: str) -> AttentionModel | None:
    """The same architecture with random weights: what a model scores that has learned nothing.

    None where a config does not say how to build the model anew.
    """
    from mha_viz.capture.random_twin import random_twin

    try:
        return random_twin(model(name, device, dtype))
    except MhaVizError:
        return None


@st.cache_resource(max_entries=2 * MAX_MODELS, show_spinner=False)
def induction(
    name: str, device: str, dtype: str, part: str, random: bool
) -> InductionScores | None:
    """What the probe of random repeated tokens found in a model; it does not depend on a text.

    None where it cannot be run: too few positions or too few tokens in the vocabulary.
    """
    from mha_viz.capture.induction import induction_scores

    probed = (random_twin if random else model)(name, device, dtype)
    try:
        return None if probed is None else induction_scores(probed, part=part)
    except ArgumentError:
        return None


class Cache:
    """Recently made things, up to a number of bytes; safe to share between threads.

    What alone is larger than all the room is not kept: it would push out everything else, only to
    be pushed out next. Who needs it for longer holds it.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._items: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The thing under `key`, made where it is not there (outside the lock: it may be slow)."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
                found: T = self._items[key][0]
                return found
        thing = make()
        n_bytes = size(thing)
        if n_bytes > self.max_bytes:
            return thing
        with self._lock:
            if key in self._items:  # another session made it meanwhile
                self.n_bytes -= self._items.pop(key)[1]
            self._items[key] = (thing, n_bytes)
            self.n_bytes += n_bytes
            while self.n_bytes > self.max_bytes:
                self.n_bytes -= self._items.popitem(last=False)[1][1]
        return thing

    def __len__(self) -> int:
        return len(self._items)


@st.cache_resource(show_spinner=False)
def cache() -> Cache:
    return Cache()
