"""What outlives one run of the page: the libraries, loaded models, and records of recent texts."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import streamlit as st

from mha_viz.checkpoints.catalog import find_model
from mha_viz.core.cancellation import cancellation
from mha_viz.errors import ArgumentError, MhaVizError
from mha_viz.ui.jobs.jobs import jobs
from mha_viz.ui.operating import malloc_trim, streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run.cache import MIB, Cache, Visitor
from mha_viz.ui.run.page_lock import release_slot, wait_without_slot
from mha_viz.ui.state import allowed
from mha_viz.ui.state.views import DEFAULT

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.induction_scores import InductionScores
    from mha_viz.reports.stored_run import ModelFacts, StoredRun

MAX_MODELS = 3
MAX_RECORD = 256 * MIB  # of all that one text leaves behind: longer texts are cut, with a note
# By name, because the parts of the pages import this module.
LOADING = "mha_viz.checkpoints.loading"
FIRST = ("mha_viz.ui.explore.drawing", "mha_viz.reports.stored_run")  # with torch, which takes 1 s
# With transformers, which takes 4 s.
REST = (LOADING, "mha_viz.ui.compare.sections", "mha_viz.ui.intervene.sections")
BREATH = 0.5  # seconds in which a browser paints what it was sent, undisturbed
STAYS = 15  # seconds in which a page whose connection broke finds its session again


class _Engine:
    """The heavy libraries, imported one after another in a thread of their own.

    What the first picture takes comes first. The rest follows once a page has been drawn, or when
    somebody needs it: until then it would only take the processor away from the drawing.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.ready: set[str] = set()
        self.drawn = threading.Event()
        self.done = False  # all is imported, and the models in `wanted` are loaded
        self.wanted: set[tuple[str, str, str]] = set()
        self._first = threading.Event()
        self._turn = threading.Lock()  # modules of two threads at once may get half of each other
        threading.Thread(target=self._load, daemon=True).start()

    def _load(self) -> None:
        try:
            with _nothing_collected():
                for name in FIRST:
                    import_module(name)
                gc.freeze()  # what they hold stays. No later: visitors' things come and go
            self.ready.update(FIRST)
            self._first.set()
            self.drawn.wait()
            time.sleep(BREATH)
            with _nothing_collected():
                for name in REST:
                    self.get(name)
            for checkpoint in tuple(self.wanted):
                _model(*checkpoint)
        except BaseException as error:
            self.error = error
        self.done = True
        self._first.set()
        _stored_run.cache_clear()  # nobody asks for one any more

    def get(self, name: str) -> ModuleType:
        """A module, imported now or after what is being imported."""
        self._first.wait()
        with self._turn:
            if self.error is not None:
                raise self.error
            module = import_module(name)
            self.ready.add(name)
            return module


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """An import makes much and drops little: to look for garbage takes a quarter of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@st.cache_resource(show_spinner=False)
def _engine() -> _Engine:
    return _Engine()


def go_on() -> None:
    """A page has been drawn: import what is not there yet behind it; returns at once."""
    _engine().drawn.set()


def late(name: str) -> ModuleType:
    """A module that needs torch, transformers or plotly, once those are there."""
    engine = _engine()
    if name in engine.ready:
        return sys.modules[name]
    with release_slot(), st.spinner("Waking up: loading torch and transformers (once) …"):
        return engine.get(name)


def known(name: str) -> ModuleType | None:
    """A module as of `late`, where somebody has needed it already; nothing is imported."""
    return sys.modules[name] if name in _engine().ready else None


def stored_run(name: str, device: str, dtype: str) -> StoredRun | None:
    """What stands in for a shipped model while the libraries that run it are being imported.

    The model itself is then loaded behind the page. None where nothing stands in for it: it can
    be loaded at once, runs elsewhere than on the processor, or brings no run along.
    """
    engine = _engine()
    if engine.done or dtype != "float32":
        return None
    if late("mha_viz.checkpoints.device").device_of(device).type != "cpu":
        return None
    found = _stored_run(name)
    if found is not None:
        engine.wanted.add((name, device, dtype))
    return found


@functools.cache
def _stored_run(name: str) -> StoredRun | None:
    found: StoredRun | None = late("mha_viz.reports.stored_run").read(name)
    return found


def facts(name: str, device: str, dtype: str) -> ModelFacts:
    """What a page says of a model; of a stored run, while the model is not loaded."""
    stored = stored_run(name, device, dtype)
    if stored is not None:
        return stored.model
    loaded = model(name, device, dtype)
    found: ModelFacts = late("mha_viz.reports.stored_run").ModelFacts.of(loaded)
    return found


def to_be_checked(name: str, device: str, dtype: str) -> bool:
    """Tell whether a model is not loaded yet and must be built on trial first."""
    allowed.check_model(name)
    new = (name, device, dtype) not in _loaded
    return new and find_model(name, download=False).source != "shipped"


def check(name: str) -> None:
    """Build a model on trial; raise what `model` would raise for its files."""
    loading = late(LOADING)
    with release_slot():
        loading.check(name)


def model(name: str, device: str, dtype: str) -> AttentionModel:
    """A loaded model, shared by all users; the least recently used one is let go."""
    late(LOADING)  # outside of what is cached: Streamlit would show the spinner again
    which = (name, device, dtype)
    # Whoever waits for it, too, leaves the turn to others: a large model takes its time.
    with nullcontext() if which in _loaded else release_slot():
        found = _model(*which)
    _loaded.pop(which, None)
    _loaded[which] = None
    while len(_loaded) > MAX_MODELS:
        _loaded.pop(next(iter(_loaded)), None)
    return found


_loaded: dict[tuple[str, str, str], None] = {}  # those in `_model`, the latest last


@st.cache_resource(max_entries=MAX_MODELS, show_spinner=False)
def _model(name: str, device: str, dtype: str) -> AttentionModel:
    allowed.check_model(name)
    with cancellation(None):  # it serves every text: an overtaken run finishes it
        loaded: AttentionModel = _engine().get(LOADING).load(name, device=device, dtype=dtype)
    allowed.check_size(loaded)
    loaded.cut_texts(MAX_RECORD, settings().max_tokens)
    return loaded


@st.cache_resource(max_entries=1, show_spinner=False)
def untrained_copy(name: str, device: str, dtype: str) -> AttentionModel | None:
    """The same architecture with random weights: what a model scores that has learned nothing.

    None where a config does not say how to build the model anew.
    """
    made = _engine().get("mha_viz.checkpoints.untrained_copy")
    try:
        with cancellation(None):  # as for `_model`
            untrained: AttentionModel = made.untrained_copy(_model(name, device, dtype))
    except MhaVizError:
        return None
    untrained.cut_texts(MAX_RECORD, settings().max_tokens)
    return untrained


@st.cache_resource(max_entries=2 * MAX_MODELS, show_spinner=False)
def induction(
    name: str, device: str, dtype: str, part: str, random: bool
) -> InductionScores | None:
    """What the probe with random repeated tokens found in a model; it does not depend on a text.

    None where the probe cannot be run: too few positions, or too few tokens in the vocabulary.
    """
    probe = _engine().get("mha_viz.reports.induction")
    probed = (untrained_copy if random else _model)(name, device, dtype)
    try:
        with cancellation(None):  # as for `_model`
            return None if probed is None else probe.induction_scores(probed, part=part)
    except ArgumentError:
        return None


# -- what visitors look at -------------------------------------------------------------------------


@functools.cache
def cache() -> Cache:
    """One for all visitors: those who look at the same text share what was made of it."""
    return Cache(who=_who, on_drop=malloc_trim.soon, wait=wait_without_slot)


def let_go(everything: bool) -> None:
    """Make room: what nobody looks at goes, or all that can be made again, models as well."""
    cache().let_go(everything)
    if everything:
        for loaded in (_model, untrained_copy, induction):
            loaded.clear()
        _loaded.clear()
    malloc_trim.now()


def ready() -> str:
    """Why no page can be shown at once, in one sentence; "" where it can be.

    Who asks makes the libraries and the first model load, although no page is open yet.
    """
    engine = _engine()
    if not engine.done:
        engine.wanted.add(DEFAULT.checkpoint)
        engine.drawn.set()
        return "The libraries and the first model are being loaded: ask again in a few seconds."
    if engine.error is not None:
        return f"The libraries could not be loaded ({type(engine.error).__name__}): see the log."
    return ""


def _who() -> Visitor | None:
    return None if streamlit_run.session_id() is None else visitor()


def _gone(visitor: Visitor) -> None:
    """Streamlit calls this when a page's connection ends, on its event loop."""
    cache().leave(visitor)
    with contextlib.suppress(RuntimeError):  # elsewhere (cleared caches) no page was closed
        loop = asyncio.get_running_loop()
        loop.call_later(STAYS, _close, visitor.session)


@st.cache_resource(scope="session", show_spinner=False, on_release=_gone)
def visitor() -> Visitor:
    """Return who looks at the page that is run; once made, the end of the session is heard."""
    return Visitor(streamlit_run.session_id() or "")


def _close(session: str) -> None:
    """End a session that did not come back, with all that it waits for."""
    if streamlit_run.end_unless_connected(session):
        jobs().leave_all(session)
        malloc_trim.soon()
