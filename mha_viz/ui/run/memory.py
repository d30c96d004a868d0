"""Memory beyond one run of a page: loaded models, and records of recent texts."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st
from cachetools import LRUCache, cached

from mha_viz.checkpoints.catalog import find_model
from mha_viz.core.amounts import of_bytes
from mha_viz.core.cancellation import cancellation
from mha_viz.errors import ArgumentError, MhaVizError, ModelNotFoundError, OutOfMemoryError
from mha_viz.ui.jobs.heavy_queue import jobs
from mha_viz.ui.operating import malloc_trim, streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run.cache import MIB, Cache, Visitor
from mha_viz.ui.run.late_imports import await_torch, await_transformers, late_imports
from mha_viz.ui.run.page_lock import release_slot, wait_without_slot
from mha_viz.ui.state import allowed
from mha_viz.ui.state.link_values import UNTRAINED
from mha_viz.ui.state.views import DEFAULT

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.induction_scores import InductionScores
    from mha_viz.reports.stored_run import ModelFacts, StoredRun

MAX_MODELS = 3
SHOWN_SEED = 2  # of an untrained copy that is shown: baselines take 0 and 1
MAX_RECORD = 512 * MIB  # of all that one text leaves behind: longer texts are cut, with a note
RECONNECT_SECONDS = 15  # in which a page whose connection broke finds its session again


def stored_run(name: str, device: str, dtype: str) -> StoredRun | None:
    """Return the stored run of a shipped model while the libraries that run it are imported.

    The model itself is then loaded behind the page. None where it can be loaded at once, runs
    elsewhere than on the processor, or has no stored run.
    """
    imports = late_imports()
    if imports.done:
        _stored_run.cache_clear()  # nobody needs one any more
    if imports.done or dtype != "float32":
        return None
    await_torch()
    from mha_viz.checkpoints.device import device_of

    if device_of(device).type != "cpu":
        return None
    if (run := _stored_run(name)) is not None:
        imports.then[name, device, dtype] = partial(_model, name, device, dtype)
    return run


@functools.cache
def _stored_run(name: str) -> StoredRun | None:
    from mha_viz.reports import stored_run

    return stored_run.read(name)


def facts(name: str, device: str, dtype: str) -> ModelFacts:
    """Return the facts of a model; from a stored run while the model is not loaded."""
    if (stored := stored_run(name, device, dtype)) is not None:
        return stored.model
    await_torch()
    from mha_viz.reports.stored_run import ModelFacts

    return ModelFacts.of(model(name, device, dtype))


def is_loaded(name: str, device: str, dtype: str) -> bool:
    """Return whether a model is there, and `model` returns it at once."""
    return (name, device, dtype) in _loaded


def needs_check(name: str, device: str, dtype: str) -> bool:
    """Return whether a model is not loaded yet and its files must be checked first."""
    allowed.check_model(name)
    new = not is_loaded(name, device, dtype)
    return new and find_model(name, download=False).source != "shipped"


def check(name: str) -> None:
    """Check a model's files; raise what `model` would raise for them."""
    await_transformers()
    from mha_viz.checkpoints import loading

    with release_slot():
        loading.check(name)


@functools.lru_cache(maxsize=8)
def size_line(name: str, dtype: str) -> str:
    """Say how large a model and its longest text are; "" for a shipped one, all small.

    A model that is loaded stays in use when its folder is gone, and nothing is said of it.
    """
    try:
        source = find_model(name, download=False).source
    except ModelNotFoundError:
        return ""
    if source == "shipped":
        return ""
    await_transformers()
    from mha_viz.checkpoints.loading import size_of

    size = size_of(name, dtype)
    longest = min(size.n_ctx, MAX_RECORD // max(size.token, 1))
    n_tokens = min(longest, settings().max_tokens or longest)
    text = f"; a text of {n_tokens:,} tokens takes {of_bytes(n_tokens * size.token)}"
    return f"{of_bytes(size.weights)} of weights{text if n_tokens else ''}"


def model(name: str, device: str, dtype: str) -> AttentionModel:
    """Return a loaded model, shared by all users; the least recently used one is dropped."""
    await_transformers()  # outside of what is cached: Streamlit would show the spinner again
    checkpoint = (name, device, dtype)
    # Waiting pages leave their turn to others: a large model takes its time.
    with nullcontext() if checkpoint in _loaded else release_slot():
        try:
            return _model(*checkpoint)
        except OutOfMemoryError:
            if not _loaded:
                raise
            let_go(everything=True)  # the other models may leave room for this one
            return _model(*checkpoint)


_loaded: LRUCache[tuple[str, str, str], AttentionModel] = LRUCache(MAX_MODELS)


@cached(_loaded, key=lambda *checkpoint: checkpoint, condition=threading.Condition())
def _model(name: str, device: str, dtype: str) -> AttentionModel:
    if name.endswith(UNTRAINED):
        return _untrained(name.removesuffix(UNTRAINED), device, dtype, SHOWN_SEED)
    allowed.check_model(name)
    from mha_viz.checkpoints.loading import load

    with cancellation(None):  # it serves every text: an overtaken run finishes it
        loaded = load(name, device=device, dtype=dtype)
    allowed.check_size(loaded)
    loaded.cut_texts(MAX_RECORD, settings().max_tokens)
    return loaded


@st.cache_resource(max_entries=1, show_spinner=False)
def untrained_copy(name: str, device: str, dtype: str, seed: int = 0) -> AttentionModel | None:
    """Return the same architecture with random weights; None where a config cannot rebuild it."""
    try:
        return _untrained(name, device, dtype, seed)
    except MhaVizError:
        return None


def _untrained(name: str, device: str, dtype: str, seed: int) -> AttentionModel:
    from mha_viz.checkpoints.untrained_copy import untrained_copy

    with cancellation(None):  # as for `_model`
        untrained = untrained_copy(_model(name, device, dtype), seed)
    untrained.cut_texts(MAX_RECORD, settings().max_tokens)
    return untrained


@st.cache_resource(max_entries=2 * MAX_MODELS, show_spinner=False)
def induction(
    name: str, device: str, dtype: str, part: str, random: bool
) -> InductionScores | None:
    """Return the scores of the probe with random repeated tokens, which depends on no text.

    None where the probe cannot be run: too few positions, or too few tokens in the vocabulary.
    """
    from mha_viz.reports.induction import induction_scores

    probed = (untrained_copy if random else _model)(name, device, dtype)
    try:
        with cancellation(None):  # as for `_model`
            return None if probed is None else induction_scores(probed, part=part)
    except ArgumentError:
        return None


@functools.cache
def cache() -> Cache:
    """Return the cache of all visitors, who share what was computed for the same text."""

    def current_visitor() -> Visitor | None:
        return None if streamlit_run.session_id() is None else visitor()

    return Cache(current_visitor=current_visitor, on_drop=malloc_trim.soon, wait=wait_without_slot)


def let_go(everything: bool) -> None:
    """Drop what no page shows, or all that can be made again, models as well."""
    cache().drop(everything)
    if everything:
        _model.cache_clear()
        untrained_copy.clear()
        induction.clear()
    malloc_trim.now()


def ready() -> str:
    """Say in one sentence why no page can be shown at once; "" where it can be.

    The libraries and the first model begin to load, although no page is open yet.
    """
    imports = late_imports()
    if not imports.done:
        imports.then[DEFAULT.checkpoint] = partial(_model, *DEFAULT.checkpoint)
        imports.drawn.set()
        return "The libraries and the first model are being loaded: ask again in a few seconds."
    if imports.error is not None:
        return f"The libraries could not be loaded ({type(imports.error).__name__}): see the log."
    return ""


def _on_disconnect(visitor: Visitor) -> None:
    """Forget what the page showed; Streamlit calls this on its event loop when a page closes."""
    cache().leave(visitor)
    with contextlib.suppress(RuntimeError):  # elsewhere (cleared caches) no page was closed
        asyncio.get_running_loop().call_later(RECONNECT_SECONDS, _close, visitor.session)


@st.cache_resource(scope="session", show_spinner=False, on_release=_on_disconnect)
def visitor() -> Visitor:
    """Return whose page is run; once it exists, `_on_disconnect` is called at the session's end."""
    return Visitor(streamlit_run.session_id() or "")


def _close(session: str) -> None:
    """End a session that did not reconnect, with all that it waits for."""
    if streamlit_run.end_unless_connected(session):
        jobs().leave_all(session)
        malloc_trim.soon()
