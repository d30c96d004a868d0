"""The pictures of the Heads page and what stands beside them.

Importing it imports torch and plotly, so pages do it late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.record.views import weight_among
from mha_viz.ui.heads import TEXTS, WORDS, payloads
from mha_viz.ui.heads.tokenization import pieces_line
from mha_viz.ui.operating.streamlit_run import is_partial
from mha_viz.ui.run import late_imports, memory, reporting
from mha_viz.ui.run.page_lock import yield_slot
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.run.scene import Facts, Scene, displayed_record, extent, fit_head, is_head
from mha_viz.ui.state import selection
from mha_viz.ui.state.layer_numbers import chosen_pin
from mha_viz.ui.state.link_values import unique_pins
from mha_viz.ui.state.session import from_browser, session, to_browser
from mha_viz.ui.state.views import (
    BENCH,
    SCALES,
    SHOWS,
    Choice,
    Compare,
    HeadsView,
    ManyTexts,
    Shared,
)
from mha_viz.ui.widgets.components.component import carry
from mha_viz.ui.widgets.components.workbench import exact_requests, workbench
from mha_viz.ui.widgets.controls import choosing, lazy_sections
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import (
    continue_on_error,
    number_columns,
    plain,
    stop_on_error,
)
from mha_viz.web.head_details import has_values, has_vectors
from mha_viz.web.payload import finite

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.stored_run import ModelFacts

DETAIL = "prediction-detail"
AMONG = "among"  # heads sorted by how much the chosen tokens look at each other
RESTS = "The text is being written: this comes when it pauses."


def load_model(view: Shared) -> AttentionModel:
    """Return the view's model, shared with all users who have chosen the same."""
    with _loading(view):
        return memory.model(*view.checkpoint)


def known_model(view: Shared) -> ModelFacts:
    """Return the facts of the view's model; while it is not loaded, a stored run may know them."""
    with _loading(view):
        return memory.facts(*view.checkpoint)


@contextmanager
def _loading(view: Shared) -> Iterator[None]:
    """Check a model's files where needed, then load it inside; say on the page which is done."""
    name = plain(view.model)
    spinner_slot = st.empty()  # in every run, so that what follows stays in place
    if memory.is_loaded(*view.checkpoint):
        st.empty()
        yield
        return
    size = ""
    if memory.needs_check(*view.checkpoint):
        with spinner_slot, st.spinner(TEXTS("drawing.checking", name=name)):
            memory.check(view.model)
            size = memory.size_line(view.model, view.dtype)
    loading = TEXTS("drawing.loading_size" if size else "drawing.loading", name=name, size=size)
    with st.spinner(loading):
        yield


def model_facts(model: ModelFacts, dtype: str) -> None:
    """Write the facts of the chosen model, whose size is for this number format."""
    n_keys = words.count(model.n_kv_heads, "key head")
    shared = f" ({n_keys})" if model.n_kv_heads != model.n_heads else ""
    counts = words.count(model.n_layers, "layer"), words.count(model.n_heads, "head") + shared
    named = {name: plain(getattr(model, name)) for name in ("name", "family", "device")}
    st.markdown(TEXTS("drawing.model", model=model, size=" of ".join(counts), **named))
    if size := memory.size_line(model.name, dtype):
        st.caption(f"{size}.")


def model_notes(model: ModelFacts | AttentionModel) -> None:
    """Write what to know about a model before believing what it shows."""
    for note in model.notes:
        st.warning(plain(note), icon=":material/info:")


def fit_grid(scene: Scene, view: HeadsView) -> HeadsView:
    """Replace what the view has and this scene has not; return the view as it is then."""
    record = scene.record
    queries, keys = record.shape[2:]
    window_fits = all(last < n for (_, last), n in zip(view.window, (queries, keys), strict=False))
    off = tuple(sorted({head for head in view.off if is_head(record, head)}))
    if missing := sorted(set(view.off) - set(off)):
        listed = words.listed(missing, 8)
        selection.add_problem(TEXTS("predicted.missing", extent=extent(record), missing=listed))
    changes: dict[str, Choice] = {
        "query": view.query if view.query < queries else -1,
        "key": view.key if view.key < keys else -1,
        "window": view.window if window_fits else (),
        "off": off,
    }
    if record.is_cross or any(last >= queries for _, last in view.tokens):
        changes["tokens"] = ()
    fitted = replace(view, **cast(dict[str, Any], changes))
    if view.sort not in ("", "pair") and not _sorted_by(scene, fitted):
        if view.sort in METRICS:
            selection.add_problem(TEXTS("drawing.no_order", title=METRICS[view.sort].title))
        elif view.sort != AMONG:
            selection.add_problem(f"There is no metric {view.sort!r}. Showing heads by layer.")
        changes["sort"] = ""
    if view.only and view.only not in LABELS:
        selection.add_problem(f"There is no kind of head {view.only!r}. Showing all heads.")
        changes["only"] = ""
    selection.change(**changes)
    return replace(view, **cast(dict[str, Any], changes))


def heads(scene: Scene, in_motion: bool = False) -> None:
    """Draw all heads and the chosen one; `in_motion` leaves out all but pictures."""
    _heads(scene, [], in_motion)
    # Not in the fragment: Stop must end what measures.
    session().words_of = selection.of(HeadsView).chosen
    shown = partial(st.caption, RESTS) if in_motion else partial(_words, scene)
    lazy_sections.in_expander(TEXTS("head_words.folded"), WORDS, shown)


@fragment
def _heads(scene: Scene, urls: downloads.Urls, in_motion: bool) -> None:
    """Draw the heads in a fragment of their own; `urls` live until the page runs again."""
    with stop_on_error():
        # Anyone can send anything.
        view = fit_grid(scene, fit_head(scene, selection.of(HeadsView)))
        if is_partial() and from_browser(WORDS) and view.chosen != session().words_of:
            st.rerun()  # the words of the head stand below, on the page
        payload = payloads.grid(scene, view, urls)
        _follow_bench(view)
        workbench(payload, _settings(scene, view), key="bench", take=_take)
        # Fragments within follow; they must stand at the same place in every run.
        with st.container(gap=None):
            selection.push_url()  # before what may take its time
        with st.container(gap=None):
            _exact(scene, payload)
            yield_slot()
            # Until it comes, the workbench says that it is on its way.
            carry(
                *_late(scene, payload, view, selection.of(ManyTexts), in_motion), key="bench-late"
            )
        with st.container(horizontal=True, vertical_alignment="center"):
            downloads.menu(scene, payloads.explored)
            if pins := selection.of(Compare).pins:
                choosing.page_button("compare", f"Board ({len(pins)})", section="board")
        with st.container():
            _status(scene, view)
        resting: Callable[[], object] | None = partial(st.caption, RESTS) if in_motion else None
        _prediction_detail(scene, view, resting)
        # Streamlit keeps what draws it, so that it must not hold the record.
        shown = resting or partial(_table, scene, view)
        lazy_sections.expander("All heads as a table", "heads-table", shown)
        if not in_motion and view.show == "numbers" and scene.head_count > 1:
            carry(payloads.nearest(scene, payload), key="bench-twins")


@fragment
def _exact(scene: Scene, payload: bytes) -> None:
    """Send the exact weights of the shown axes; runs alone where the browser requests it."""
    with stop_on_error(), st.container(gap=None):  # what comes and goes takes no room
        exact_requests(key="bench-requests", take=_take)
        view = fit_grid(scene, fit_head(scene, selection.of(HeadsView)))
        record = scene.record
        # Other axes are made in the browser of what the model left, but where cells are pooled.
        if payloads.is_pooled(record):
            record = displayed_record(scene, view)
        carry(*payloads.exact(payload, record, view), key="bench-head")


def _late(
    scene: Scene, payload: bytes, view: HeadsView, corpus: ManyTexts, in_motion: bool
) -> Iterator[bytes]:
    """Yield payloads that take longer than the pass, or depend on the chosen head."""
    if not in_motion and scene.is_long:
        yield payloads.metrics(scene, payload)
    if view.off or _predicts(scene, view):
        yield _predicted().prediction_payload(scene, payload, view)
    if not in_motion or view.only:
        yield payloads.labels(scene, payload, view)
    if not in_motion and view.show == "numbers":
        yield payloads.numbers(scene, payload, view, corpus)


def _predicts(scene: Scene, view: HeadsView) -> bool:
    """Return whether the model predicts something here; a stored run does not wait for it."""
    return scene.stored is None and _predicted().predicts(scene, view)


def _predicted() -> Any:
    """Import what predicts when it is needed: it imports transformers."""
    from mha_viz.ui.heads import predicted

    return predicted


def _prediction_detail(scene: Scene, view: HeadsView, resting: Callable[[], object] | None) -> None:
    """Draw the section folded; an address that chooses what it alone shows opens it.

    No fragment of its own: its choices change the tokens under the sentence, too. `resting` draws
    it while the text is being written.
    """
    is_detailed = view.how != "zero" or bool(view.target or view.against) or view.position >= 0
    if from_browser(DETAIL) is None:
        to_browser(DETAIL, bool(view.off) and is_detailed)

    def draw() -> None:
        from mha_viz.ui.heads import prediction_detail

        prediction_detail.draw(scene, view)

    lazy_sections.in_expander(TEXTS("prediction_detail.title"), DETAIL, resting or draw)


def _words(scene: Scene) -> None:
    late_imports.await_transformers()
    from mha_viz.ui.heads import head_words

    first_text = [token for token in scene.record.tokens if not token.segment]
    with continue_on_error():
        head_words.draw(selection.of(HeadsView), first_text, words.settings(scene))


def _take(choices: dict[str, Choice]) -> None:
    """Keep what was chosen in the workbench; another head keeps the chosen pair of tokens."""
    session().problems = []
    selection.change(**choices)


def _follow_bench(view: HeadsView) -> None:
    """Open the page, or add the random baseline, that the workbench requested."""
    page, session().leads_to = session().leads_to, ""
    if session().wants_random:
        session().wants_random = False
        reporting.request_random(view)
    if page:
        if page == "why":
            selection.change(why="score", score="parts", versus_key=-1)
        if page == "compare":
            pins = unique_pins([*selection.of(Compare).pins, chosen_pin(view)])
            selection.change(pins=pins, section="board")
        st.switch_page(session().pages[page], query_params=selection.share_params())


def _settings(scene: Scene, view: HeadsView) -> dict[str, Any]:
    record = displayed_record(scene, view) if payloads.is_pooled(scene.record) else scene.record
    measured = scene.facts if scene.is_measured else {}
    probed = _sorted_by(scene, view) if view.sort in ("induction", AMONG) else {}
    facts = [{"title": _title(key), "values": finite(values)} for key, values in probed.items()]
    return {
        "view": {name: getattr(view, name) for name in BENCH},
        "titles": payloads.sort_titles(scene, measured),
        "kinds": {key: label.title for key, label in LABELS.items()},
        "shows": SHOWS,
        "scales": SCALES,
        "fact": facts[0] if facts else None,
        "later": True,
        "predicts": _predicts(scene, view),
        "switches": True,
        "intervenes": view.how != "zero",
        "guide": True,
        "cells": payloads.MAX_CELLS,
        "values": has_values(record),
        "vectors": has_vectors(record),
        "explained": not record.is_cross,
        "made": payloads.is_pooled(scene.record),  # what is done to the axes, Python has done
    }


def _status(scene: Scene, view: HeadsView) -> None:
    record = displayed_record(scene, view)
    layers, n_heads, queries, keys = record.shape
    size = words.count(queries, "word" if record.merged else "token")
    if queries != keys:
        size = f"{words.count(queries, 'query', 'queries')} × {words.count(keys, 'key')}"
    heads = f"{words.count(layers, 'layer')} × {words.count(n_heads, 'head')}"
    st.caption(f"{heads} · {size} · {scene.origin}")
    if "induction" in (view.sort, view.only):
        st.caption(words.INDUCTION)
    if line := pieces_line(scene.record.tokens, scene.record.text):
        st.caption(plain(line))
    if record.removed_mass is not None:
        chosen, removed = view.chosen, record.removed_mass
        shares = {"mean": float(removed.mean()), "mine": float(removed[chosen])}
        st.caption(TEXTS("drawing.left_out", name=words.head_name(*chosen), **shares))


def _sorted_by(scene: Scene, view: HeadsView) -> Facts:
    """Return the metric that heads are sorted by; empty where they stand by layer.

    Induction is of the model, not of the text: it is probed only where it is asked for.
    """
    if view.sort == AMONG:
        tokens = [i for first, last in view.tokens for i in range(first, last + 1)]
        return {AMONG: weight_among(scene.record, tokens).numpy()} if tokens else {}
    if view.sort != "induction":
        return {view.sort: scene.facts[view.sort]} if view.sort in scene.facts else {}
    part = scene.record.part
    if part == "cross":
        return {}
    make = partial(memory.induction, *view.checkpoint, part, False)
    probed = reporting.cached(scene, "induction", make=make)
    return {} if probed is None else {view.sort: probed.mean.numpy()}


def _title(key: str) -> str:
    return "Weight among the chosen tokens" if key == AMONG else METRICS[key].title


def _table(scene: Scene, view: HeadsView) -> None:
    facts = scene.facts | _sorted_by(scene, view)
    labels = reporting.report(scene, view).labels
    titles = [
        ", ".join(earned.label.title for earned in head) for layer in labels for head in layer
    ]
    columns = {_title(key): values for key, values in facts.items()}
    table = words.head_values(scene, columns)
    table.insert(1, "Labels", titles)
    shown = {"Head": st.column_config.Column(pinned=True), **number_columns(table)}
    st.dataframe(table, hide_index=True, placeholder=words.UNDEFINED, column_config=shown)
    source = words.source(scene.record)
    downloads.table_file(table, key="heads-table", name="All heads", caption=source)
