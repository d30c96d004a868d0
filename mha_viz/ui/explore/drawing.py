"""The pictures of the Explore page and what stands beside them.

Importing it imports torch and plotly, so pages do it late.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from mha_viz.checkpoints import trial
from mha_viz.core.compare.twins import nearest_others
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.record.record import AttentionRecord
from mha_viz.ui.explore.card import card
from mha_viz.ui.explore.head_pictures import PICTURES, in_words
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.page_lock import yield_slot
from mha_viz.ui.run.reporting import chance
from mha_viz.ui.run.scene import AT_ONCE, Facts, Scene, displayed_record
from mha_viz.ui.run.scene import compute as compute
from mha_viz.ui.run.scene import fit_head as fit_head
from mha_viz.ui.state import state
from mha_viz.ui.state.views import BENCH, SCALES, SHOWS, Choice, Explore, Shared
from mha_viz.ui.widgets.components.component import carry
from mha_viz.ui.widgets.components.workbench import workbench
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain, stop_on_error
from mha_viz.web.labels import head_name
from mha_viz.web.payload import (
    MAX_SIDE,
    finite,
    grid_payload,
    head_payload,
    notes_payload,
    row_payload,
    unpack,
)

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.stored_run import ModelFacts

MAX_CELLS = 2**22  # exact weights of one head that travel at once, 16 MiB: all of 2,048 tokens
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
    """Check a model where needed, then load it inside; say on the page which of both is done."""
    name, place = plain(view.model), st.empty()  # in every run, so that what follows stays in place
    size = ""
    if memory.needs_check(*view.checkpoint):
        first = "" if trial.is_ready() else " in a process of its own, which has to start first"
        with place, st.spinner(f"Checking {name}{first} …"):
            memory.check(view.model)
            size = f" ({memory.size_line(view.model, view.dtype)})"
    with st.spinner(f"Loading {name}{size} …"):
        yield


def model_facts(model: ModelFacts) -> None:
    """Write the facts of the chosen model."""
    n_heads, n_keys = (
        words.count(model.n_heads, "head"),
        words.count(model.n_kv_heads, "key head"),
    )
    shared = f" ({n_keys})" if model.n_kv_heads != model.n_heads else ""
    st.markdown(
        f"**{plain(model.name)}** is a {plain(model.family)} model: "
        f"{words.count(model.n_layers, 'layer')} of {n_heads}{shared}, d_model "
        f"{model.d_model}, d_head {model.d_head}, texts of up to {model.n_ctx} tokens, on "
        f"{plain(model.device)}."
    )
    if size := memory.size_line(model.name, state.current().dtype):
        st.caption(f"{size}.")


def model_notes(model: ModelFacts | AttentionModel) -> None:
    """Write what to know about a model before believing what it shows."""
    for note in model.notes:
        st.warning(plain(note), icon=":material/info:")


def text_notes(record: AttentionRecord) -> None:
    """Warn of a text that was cut or is largely unknown."""
    words.cut_off(record)


def fit_grid(scene: Scene) -> None:
    """Replace an order, a kind of heads or a pair of tokens that this scene does not have."""
    view = state.of(Explore)
    queries, keys = scene.record.shape[2:]
    ends = [last for _, last in view.window]
    state.change(
        query=view.query if view.query < queries else -1,
        key=view.key if view.key < keys else -1,
        window=view.window
        if all(end < n for end, n in zip(ends, (queries, keys), strict=False))
        else (),
    )
    if view.sort not in ("", "pair") and not _sorted_by(scene, view):
        if view.sort in METRICS:
            state.add_problem(
                f"{METRICS[view.sort].title} is no order for the heads of this model and text. "
                "Showing them by layer."
            )
        else:
            state.add_problem(f"There is no metric {view.sort!r}. Showing heads by layer.")
        state.change(sort="")
    if view.only and view.only not in LABELS:
        state.add_problem(f"There is no kind of head {view.only!r}. Showing all heads.")
        state.change(only="")


def heads(scene: Scene, in_motion: bool = False) -> None:
    """Draw all heads and the chosen one; `in_motion` leaves out all but pictures."""
    _heads(scene, [], in_motion)


@st.fragment
def _heads(scene: Scene, urls: exports.Urls, in_motion: bool) -> None:
    """Draw the heads in a fragment of their own; `urls` live until the page runs again."""
    with stop_on_error():
        fit_head(scene)  # anyone can send anything
        fit_grid(scene)
        payload = _payload(scene, state.of(Explore), urls)
        settings = _settings(scene, state.of(Explore))
        grid, head = st.columns([11, 10], gap="medium")
        with grid:
            workbench("grid", payload, settings, key="bench", take=_take)
        with head:
            workbench("head", payload, settings, key="bench", take=_take)
            record = displayed_record(scene, state.of(Explore))
            if picture := PICTURES.get(state.of(Explore).show):
                picture(scene, record)
        # Fragments within follow; they must stand at the same place in every run.
        with st.container(gap=None):
            state.push_url()  # before what may take its time
        with st.container(gap=None):
            # Other axes are made in the browser of what the model left, but where cells are pooled.
            exact = record if _is_pooled(scene.record) else scene.record
            if (part := _part_to_send(payload, exact, state.of(Explore))) is not None:
                weights = head_payload(payload, exact, state.of(Explore).chosen, part)
                carry(weights, key="bench-exact")
            if _is_pooled(exact) and 0 <= state.of(Explore).query < exact.shape[2]:
                carry(row_payload(payload, exact, state.of(Explore).query), key="bench-row")
            yield_slot()
            if not in_motion and not _measured_first(scene):
                carry(notes_payload(payload, "facts", _measured(scene)), key="bench-facts")
            # Until they come, the workbench says that they are on their way.
            if not in_motion or state.of(Explore).only:
                carry(_notes(scene, payload), key="bench-notes")
        with st.container(horizontal=True, vertical_alignment="center"):
            exports.menu(scene, _explored)
        with st.container():
            _status(scene, record)
        # Streamlit keeps what draws them, so that they must not hold the record.
        for title, key, draw in (
            ("All about this head", "about", _facts),
            ("All heads as a table", "heads-table", _table),
        ):
            lazy_sections.expander(
                title, key, partial(st.caption, RESTS) if in_motion else partial(draw, scene)
            )
        if not in_motion and scene.head_count > 1:
            carry(notes_payload(payload, "twins", {"twins": _twins(scene)}), key="bench-twins")


def _take(choices: dict[str, Choice]) -> None:
    """Keep what was chosen in the workbench; another head keeps the chosen pair of tokens."""
    st.session_state.problems = []
    state.change(**choices)


def _settings(scene: Scene, view: Explore) -> dict[str, Any]:
    known = scene.facts if scene.is_measured else {}
    probed = _sorted_by(scene, view) if view.sort == "induction" else {}
    return {
        "view": {name: getattr(view, name) for name in BENCH},
        "titles": _titles(scene, known),
        "kinds": {key: label.title for key, label in LABELS.items()},
        "shows": SHOWS,
        "scales": SCALES,
        "fact": next(
            (
                {"title": METRICS[key].title, "values": finite(values)}
                for key, values in probed.items()
            ),
            None,
        ),
        "later": True,
        "cells": MAX_CELLS,
        "made": _is_pooled(scene.record),  # what is done to the axes, Python has done
    }


def _titles(scene: Scene, known: Facts) -> dict[str, str]:
    """Return the titles of what heads can be sorted by."""
    probed = set() if scene.record.part == "cross" else {"induction"}
    return {key: metric.title for key, metric in METRICS.items() if key in {*known, *probed}}


def _measured_first(scene: Scene) -> bool:
    return max(scene.record.shape[2:]) <= AT_ONCE


def _measured(scene: Scene) -> dict[str, Any]:
    """Return the metrics of a long text, which come after its weights."""
    facts = {METRICS[key].title: finite(values) for key, values in scene.facts.items()}
    return {"facts": facts, "titles": _titles(scene, scene.facts)}


def _payload(scene: Scene, view: Explore, urls: exports.Urls) -> bytes:
    """Pack all heads and metrics; the browser derives other axes, if it has all cells."""
    record = scene.record
    if _is_pooled(record):
        record = displayed_record(scene, view)
    axes = view.axes if _is_pooled(scene.record) else ()
    url = exports.exact_url(record, urls)
    return memory.cache().get(
        (scene.key, "grid", axes, url),
        lambda: _explored(scene, record, view, url, with_facts=_measured_first(scene)),
        len,
    )


def _part_to_send(
    payload: bytes, record: AttentionRecord, view: Explore
) -> tuple[range, range] | None:
    """Return which exact weights of the chosen head the browser needs; None where too many.

    What is shown is widened to full blocks, so that a small step needs nothing new. While the part
    that was sent last holds what is shown, it stays: it does not travel again.
    """
    queries, keys = record.shape[2:]
    whole = range(queries), range(keys)
    if not _is_pooled(record):
        return whole
    shown = view.shown(queries, keys)
    head = (unpack(payload)[0]["id"], view.chosen)
    last, part = st.session_state.get("bench-part", (None, whole))
    if last == head and all(shown[i][0] in part[i] and shown[i][-1] in part[i] for i in (0, 1)):
        return part
    rows, columns = (
        axis[span.start // MAX_SIDE * MAX_SIDE : span.stop + -span.stop % MAX_SIDE]
        for axis, span in zip(whole, shown, strict=True)
    )
    fitting = [part for part in ((rows, columns), shown) if math.prod(map(len, part)) <= MAX_CELLS]
    if fitting:
        st.session_state["bench-part"] = head, fitting[0]
    return fitting[0] if fitting else None


def _is_pooled(record: AttentionRecord) -> bool:
    return max(record.shape[2:]) > MAX_SIDE


def _notes(scene: Scene, payload: bytes) -> bytes:
    """Pack the labels, which take longer than the weights."""
    report = reporting.report(scene, state.of(Explore))
    earned = [row for layer in report.labels for row in layer]
    notes = {
        "labels": [[one.label.title for one in row] for row in earned],
        "kinds": [[one.label.key for one in row] for row in earned],
        "badges": [row[0].label.badge if row else "" for row in earned],
    }
    return notes_payload(payload, "notes", notes)


def _twins(scene: Scene) -> list[tuple[int, float | None, bool | None]]:
    """Return each head's nearest other one, its Hellinger distance, and whether it beats chance.

    Chance takes more time than all labels, so this comes last.
    """
    twins, apart = nearest_others(reporting.likeness(scene, "hellinger"))
    found = chance(scene, "hellinger")
    beyond = found.twins.tolist() if found.band else [None] * len(twins)
    return list(zip(twins.tolist(), finite(apart), beyond, strict=True))


def _status(scene: Scene, record: AttentionRecord) -> None:
    layers, n_heads, queries, keys = record.shape
    size = words.count(queries, "word" if record.merged else "token")
    if queries != keys:
        size = f"{words.count(queries, 'query', 'queries')} × {words.count(keys, 'key')}"
    st.caption(
        f"{words.count(layers, 'layer')} × {words.count(n_heads, 'head')} · {size} · {scene.origin}"
    )
    if "induction" in (state.of(Explore).sort, state.of(Explore).only):
        st.caption(words.INDUCTION)
    if record.removed_mass is not None:
        view = state.of(Explore)
        mean = float(record.removed_mass.mean())
        mine = float(record.removed_mass[view.chosen])
        st.caption(
            f"What was left out held {mean:.1%} of the weight over all heads, and {mine:.1%} of "
            f"{head_name(*view.chosen)}’s. The rest of each row is scaled to a sum of 1."
        )


def _sorted_by(scene: Scene, view: Explore) -> Facts:
    """Return the metric that heads are sorted by; empty where they stand by layer.

    Induction is of the model, not of the text: it is probed only where it is asked for.
    """
    if view.sort != "induction":
        return {view.sort: scene.facts[view.sort]} if view.sort in scene.facts else {}
    part = scene.record.part
    if part == "cross":
        return {}
    probed = reporting.cached(
        scene,
        "induction",
        make=lambda: memory.induction(*view.checkpoint, part, False),
    )
    return {} if probed is None else {view.sort: probed.mean.numpy()}


def _table(scene: Scene) -> None:
    view = state.of(Explore)
    facts = scene.facts | _sorted_by(scene, view)
    earned = reporting.report(scene, view).labels
    titles = [", ".join(one.label.title for one in row) for layer in earned for row in layer]
    columns = {METRICS[key].title: values for key, values in facts.items()}
    number = st.column_config.NumberColumn(format="%.4f")
    table = words.head_values(scene, columns)
    table.insert(1, "Labels", titles)
    st.dataframe(
        table,
        hide_index=True,
        placeholder=words.UNDEFINED,
        column_config={
            "Head": st.column_config.Column(pinned=True),
            **dict.fromkeys(columns, number),
        },
    )
    source = words.source(scene.record)
    exports.table_file(table, key="heads-table", name="All heads", caption=source)


def _explored(
    scene: Scene,
    record: AttentionRecord,
    view: Explore,
    url: str | None = None,
    with_facts: bool = True,
) -> bytes:
    known = scene.facts if with_facts else {}
    facts = {METRICS[key].title: scores for key, scores in known.items()}
    return grid_payload(record, facts, exact_url=url)


def _facts(scene: Scene) -> None:
    st.markdown(plain(in_words(displayed_record(scene, state.of(Explore)))))
    card(scene)
