"""One run of one text, measured, and the views derived from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.layer_numbers import head_name, is_counted, layers_in_words
from mha_viz.core.measure import measure
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.views import between
from mha_viz.reports.report import most_informative_head
from mha_viz.ui.operating import malloc_trim, streamlit_run
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import PATIENCE, cancel_if_superseded, turn_for
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.examples import example_head
from mha_viz.ui.state.faults import NothingTyped, guarded
from mha_viz.ui.state.layer_numbers import by_number
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import HeadsView, Shared, View, two_runs

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.stored_run import StoredRun

T = TypeVar("T")
Facts = dict[str, NDArray[np.float32]]
AT_ONCE = 512  # tokens; the picture of a longer text does not wait for its metrics
# One page can trace one text twice, where memory had to drop its record meanwhile.
_trace_numbers = count()


@dataclass(frozen=True)
class Run:
    """Results of one run of a text; the cache holds them."""

    record: AttentionRecord  # as the model left it
    facts: Facts | None  # measured on it; None until somebody asks for those of a long text
    seconds: float | None  # of the forward pass; unknown for a stored run
    stored: StoredRun | None = None


@dataclass(frozen=True)
class Scene:
    """One traced text, by its name. Pages may keep it: it holds next to nothing.

    What the run left behind is taken from the cache, and computed anew if it is no longer there.
    """

    model: str
    device: str
    dtype: str
    part: str
    text: str
    pair: str | None

    @property
    def key(self) -> Hashable:
        """Tells this run from all others."""
        return self

    @property
    def record(self) -> AttentionRecord:
        """The record as the model left it, nothing merged and nothing removed."""
        return self._run.record

    @property
    def facts(self) -> Facts:
        """Every metric measured on the record, (layer, head) by its key."""
        run = self._run
        if run.facts is not None:
            return run.facts
        make = partial(measured, run.record)
        return self.derive(
            "facts", make=make, size=lambda facts: sum(array.nbytes for array in facts.values())
        )

    @property
    def is_measured(self) -> bool:
        """True where `facts` are there, and need not be computed."""
        return self._run.facts is not None or self.has("facts")

    @property
    def is_long(self) -> bool:
        """True where the picture does not wait for `facts`."""
        return max(self.record.shape[2:]) > AT_ONCE

    @property
    def stored(self) -> StoredRun | None:
        """The stored run that was read; None where the model itself has run."""
        return self._run.stored

    @property
    def origin(self) -> str:
        """The run's origin in words: precomputed, or computed in so many ms."""
        seconds = self._run.seconds
        return "precomputed" if seconds is None else f"computed in {1000 * seconds:.0f} ms"

    @property
    def head_count(self) -> int:
        """Heads of all layers together."""
        return self.record.n_layers * self.record.n_heads

    def has(self, *key_parts: Hashable) -> bool:
        """Return whether `derive` has been asked for this, and still holds it."""
        return memory.cache().find((self.key, *key_parts)) is not None

    def derive(self, *key_parts: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return what follows from the run alone, made once and kept; `size` is in bytes."""

        def make_tidily() -> T:
            value = make()
            run: Run | None = memory.cache().find(self)
            malloc_trim.after(0 if run is None else run.record.held_bytes)
            return value

        with cancel_if_superseded():
            return memory.cache().get((self.key, *key_parts), make_tidily, size)

    @property
    def _run(self) -> Run:
        cached_run: Run | None = memory.cache().find(self)
        return cached_run or self.run()

    def run(self) -> Run:
        """Return the run, cached or made now; the visitor looks at it from then on.

        Raises LimitError: the text is longer than this server takes.
        """
        allowed.check_text(self.text, self.pair)
        return memory.cache().get(self, self._make, lambda run: run.record.held_bytes)

    def _make(self) -> Run:
        checkpoint = (self.model, self.device, self.dtype)
        stored = memory.stored_run(*checkpoint)
        if stored is not None and stored.is_of(self.part, self.text, self.pair):
            return Run(stored.record, measured(stored.record), None, stored)
        new_run = _trace(self, memory.model(*checkpoint), self.text, self.pair, self.part)
        malloc_trim.after(new_run.record.held_bytes)
        return new_run


def compute(view: Shared) -> Scene:
    """Run the view's text, or find it among the recent ones."""
    if not view.text.strip():
        raise NothingTyped(
            "Type a sentence above and press Enter, or choose an example in the options."
        )
    scene = _of(view)
    memory.cache().show_text(scene)
    return _run_once("scene", scene)


def other(view: Shared) -> Scene:
    """Run a second text or model beside the first."""
    return _run_once("other_scene", _of(view))


def _run_once(side: str, scene: Scene) -> Scene:
    """Run a scene, unless somebody has stopped it before it began."""
    if session().scenes.get(side) != scene and session().stopped == scene:
        # The text stays, and waits to be run again or changed.
        st.info("Stopped. Change the text, or run it again.", icon=":material/stop_circle:")
        st.button("Run again", on_click=_stop, args=(None,), key="again")
        streamlit_run.end_run()
    scene.run()
    session().scenes[side] = scene
    return scene


def _of(view: Shared) -> Scene:
    pair = view.pair if view.pair.strip() else None
    return Scene(*view.checkpoint, view.part, view.text, pair)


def displayed_record(scene: Scene, view: HeadsView) -> AttentionRecord:
    """Return the record as the view wants it: sub-words merged, tokens left out."""
    options = view.axes
    if not any(options):
        return scene.record

    def derive() -> AttentionRecord:
        record = scene.record.merge_words() if view.words else scene.record
        if view.no_first:
            record = record.without_first()
        if view.no_special:
            record = record.without_special()
        texts = {token.segment for token in record.tokens} & {t.segment for t in record.key_tokens}
        if not view.between or texts != {0, 1}:  # a link may ask for it where there is one text
            return record
        return between(record, *("ab".index(letter) for letter in view.between))

    return memory.cache().get((scene, options), derive, lambda record: record.held_bytes)


def fit_head(scene: Scene, view: HeadsView) -> HeadsView:
    """Bring the view's head back to one that this model has; return the view as it is then."""
    record, numbers = scene.record, scene.record.layer_numbers
    number = by_number(view).layer
    selection.number_layers(() if is_counted(numbers) else numbers)
    view = selection.of(HeadsView)
    layer, head = view.chosen
    if min(layer, head) < 0:
        layer, head = _head_to_show(scene)
        session().auto_head = layer, head
        if view.layer_b < 0 and two_runs(selection.of(View)):
            selection.change(layer_b=layer, head_b=head)
    elif not is_head(record, view.chosen):
        first = head_name(0, 0, numbers=numbers)
        selection.add_problem(f"{no_such_head(record, number, head)} Showing {first}.")
        layer, head = 0, 0
    heads = tuple(head for head in view.heads if is_head(record, head))
    selection.change(layer=layer, head=head, heads=heads)
    return selection.of(HeadsView)


def _head_to_show(scene: Scene) -> tuple[int, int]:
    """Return the head that a page opens with; while a long text is not measured, the last one."""
    named = example_head(scene.model, scene.text)
    last = session().auto_head
    if named is None and last and not scene.is_measured and is_head(scene.record, last):
        return last
    return named or most_informative_head(scene.facts)


def is_head(record: AttentionRecord, head: tuple[int, int]) -> bool:
    """Return whether a model has this (layer, head); neither number is below 0."""
    return head[0] < record.n_layers and head[1] < record.n_heads


def no_such_head(record: AttentionRecord, layer: int, head: int) -> str:
    """Say that a model does not have the head that a link names, its layer by number."""
    return f"There is no {head_name(layer, head)}: {extent(record)}."


def extent(record: AttentionRecord) -> str:
    """Name the layers and heads that a model has."""
    numbers, heads = record.layer_numbers, f"heads 0–{record.n_heads - 1}"
    if is_counted(numbers):
        return f"{record.model} has layers 0–{record.n_layers - 1} and {heads}"
    return f"in {record.model} {layers_in_words(numbers)}, and it has {heads}"


def _trace(key: Hashable, model: AttentionModel, text: str, pair: str | None, part: str) -> Run:
    number = next(_trace_numbers)
    with st.container(key=f"run-progress-{number}", horizontal=True):  # page.css: in no room
        bar, button = st.empty(), st.empty()
    offered = False

    def on_layer(done: int) -> None:
        # When it draws, Streamlit also ends a run that a click or a newer text has overtaken.
        nonlocal offered
        if time.perf_counter() - start > PATIENCE:
            bar.progress(min(done / model.n_layers, 1.0), f"Layer {done} of {model.n_layers}")
            if not offered:
                button.button("Stop this run", on_click=_stop, args=(key,), key=f"stop-{number}")
            offered = True

    ours = model.backend == "mha_viz"
    keep = ("pattern", "z", "query", "key", "value", "tiles") if ours else ("pattern",)
    with turn_for(model, text + (pair or "")):
        start = time.perf_counter()
        record = model.trace(text, pair, part=part, keep=keep, on_layer=on_layer)
        seconds = time.perf_counter() - start
        bar.empty()
        button.empty()
        if max(record.shape[2:]) > AT_ONCE:
            return Run(record, None, seconds)
        with cancel_if_superseded():
            return Run(record, measured(record), seconds)


def measured(record: AttentionRecord) -> Facts:
    """Return all metrics of a record, as `Run` keeps them."""
    return {name: values.numpy() for name, values in measure(record).items()}


@guarded
def _stop(key: Hashable) -> None:
    session().stopped = key
