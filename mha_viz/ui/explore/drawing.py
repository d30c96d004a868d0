"""The pictures of the Explore page and what stands beside them.

Importing it imports torch and plotly, so pages do it late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.record import AttentionRecord
from mha_viz.plots.frame import quantity
from mha_viz.ui.explore.card import card
from mha_viz.ui.explore.head_pictures import PICTURES, in_words
from mha_viz.ui.session import memory, reporting, state
from mha_viz.ui.session.scene import Facts, Scene, displayed_record
from mha_viz.ui.session.scene import compute as compute
from mha_viz.ui.session.scene import fit_head as fit_head
from mha_viz.ui.session.views import View
from mha_viz.ui.widgets import controls, exports, folded, words
from mha_viz.ui.widgets.head_grid import head_grid
from mha_viz.ui.widgets.messages import plain, stop_on_error
from mha_viz.web.labels import head_name
from mha_viz.web.payload import grid_payload

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.stored_run import ModelFacts


def load_model(view: View) -> AttentionModel:
    """The view's model, shared with all users who have chosen the same."""
    with st.spinner(f"Loading {plain(view.model)} …"):
        return memory.model(*view.checkpoint)


def known_model(view: View) -> ModelFacts:
    """What the view's model is; while it is not loaded, a stored run may know."""
    with st.spinner(f"Loading {plain(view.model)} …"):
        return memory.facts(*view.checkpoint)


def model_facts(model: ModelFacts) -> None:
    """What the chosen model is, and what its user should know."""
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
    for note in model.notes:
        st.warning(plain(note), icon=":material/info:")


def fit_grid(scene: Scene) -> None:
    """Replace an order or a kind of heads that this scene does not have."""
    view = state.current()
    if view.sort and not _sorted_by(scene, view):
        if view.sort in METRICS:
            state.tell(
                f"{METRICS[view.sort].title} is no order for the heads of this model and text. "
                "Showing them by layer."
            )
        else:
            state.tell(f"There is no metric {view.sort!r}. Showing heads by layer.")
        state.change(sort="")
    if view.only and view.only not in LABELS:
        state.tell(f"There is no kind of head {view.only!r}. Showing all heads.")
        state.change(only="")


def heads(scene: Scene) -> None:
    """All heads, and one of them."""
    known = set(scene.facts) | ({"induction"} if scene.record.part != "cross" else set())
    titles = {key: metric.title for key, metric in METRICS.items() if key in known}
    kinds = {key: label.title for key, label in LABELS.items()}
    controls.grid_options(titles, kinds, scene.has_special)
    _heads(scene, {})


@st.fragment
def _heads(scene: Scene, urls: exports.Urls) -> None:
    """A click reruns this and nothing else on the page; `urls` live until the page runs again."""
    with stop_on_error():
        view = state.current()
        record = displayed_record(scene, view)
        _status(scene, record)
        _all_heads(scene, record, exports.exact_url(record, view, urls))
        with st.container(horizontal=True, vertical_alignment="bottom"):
            controls.head_options(record.n_layers, record.n_heads)
            exports.menu(scene, _explored)
        picture, facts = st.columns([3, 2], gap="medium")
        with picture:
            PICTURES[state.current().show](scene, record)
        with facts:
            _facts(scene, record)
        state.publish()


def _status(scene: Scene, record: AttentionRecord) -> None:
    layers, n_heads, queries, keys = record.pattern.shape
    size = words.count(queries, "word" if record.merged else "token")
    if queries != keys:
        size = f"{words.count(queries, 'query', 'queries')} × {words.count(keys, 'key')}"
    st.caption(
        f"{words.count(layers, 'layer')} × {words.count(n_heads, 'head')} · {size} · {scene.origin}"
    )
    words.cut_off(record)
    if "induction" in (state.current().sort, state.current().only):
        st.caption(words.INDUCTION)
    if record.removed_mass is not None:
        view = state.current()
        mean = float(record.removed_mass.mean())
        mine = float(record.removed_mass[view.chosen])
        st.caption(
            f"What was left out held {mean:.1%} of the weight over all heads, and {mine:.1%} of "
            f"{head_name(*view.chosen)}’s. The rest of each row is scaled to a sum of 1."
        )


def _all_heads(scene: Scene, record: AttentionRecord, url: str | None) -> None:
    view = state.current()
    order = _chosen_heads(scene, view)
    if order == []:
        st.info(_why_none(scene, view), icon=":material/filter_alt:")
        return
    key = (scene.key, *view.axes, view.sort, url)
    payload = memory.cache().get(key, lambda: _explored(scene, record, view, url), len)
    head_grid(
        payload,
        selected=view.chosen,
        order=order,
        scale=view.scale,
        fact=METRICS[view.sort].title if view.sort else None,
        key="grid",
        on_select=words.choose,
    )
    folded.expander("All heads as a table", "heads-table", lambda: _table(scene, view))


def _chosen_heads(scene: Scene, view: View) -> list[tuple[int, int]] | None:
    """The heads to be drawn in their order; None for all of them as a matrix."""
    heads = _of_kind(scene, view)
    scores = _sorted_by(scene, view).get(view.sort)
    if scores is not None:
        heads = [h for h in heads if scores[h] >= view.least]
        heads.sort(key=lambda h: -scores[h])
    return heads if view.sort or view.only else None


def _of_kind(scene: Scene, view: View) -> list[tuple[int, int]]:
    """The heads with the chosen label; all where none is chosen."""
    if view.only:
        return reporting.of_kind(reporting.report(scene, view), view.only)
    return [words.place(index, scene) for index in range(scene.head_count)]


def _sorted_by(scene: Scene, view: View) -> Facts:
    """The metric that heads are sorted by; empty where they stand by layer.

    Induction is of the model, not of the text: it is probed only where it is asked for.
    """
    if view.sort != "induction":
        return {view.sort: scene.facts[view.sort]} if view.sort in scene.facts else {}
    part = scene.record.part
    if part == "cross":
        return {}
    probed = reporting.remembered(
        scene,
        "induction",
        make=lambda: memory.induction(*view.checkpoint, part, False),
    )
    return {} if probed is None else {view.sort: probed.mean.numpy()}


def _why_none(scene: Scene, view: View) -> str:
    """Why no head is left to be drawn."""
    heads = _of_kind(scene, view)
    if not heads:
        where = "" if view.only == "induction" else " on this text"
        return f"No head of this model is of that kind{where}."
    kind = " of that kind" if view.only else ""
    scores, title = _sorted_by(scene, view)[view.sort], METRICS[view.sort].title
    known = [head for head in heads if np.isfinite(scores[head])]
    if not known:
        return f"{title} is not defined for any head{kind} on this text."
    best, unit = max(known, key=lambda head: scores[head]), words.unit_of(view.sort)
    return (
        f"No head{kind} reaches {quantity(view.least, unit)} in {title}: the largest is "
        f"{quantity(float(scores[best]), unit)}, of {head_name(*best)}."
    )


def _table(scene: Scene, view: View) -> None:
    """A row per head; all that is measured on the text, and what heads are sorted by."""
    facts = scene.facts | _sorted_by(scene, view)
    columns = {METRICS[key].title: values for key, values in facts.items()}
    number = st.column_config.NumberColumn(format="%.4f")
    st.dataframe(
        words.head_values(scene, columns),
        hide_index=True,
        placeholder=words.UNDEFINED,
        column_config={
            "Head": st.column_config.Column(pinned=True),
            **dict.fromkeys(columns, number),
        },
    )


def _explored(scene: Scene, record: AttentionRecord, view: View, url: str | None = None) -> bytes:
    """All heads with the metric they are sorted by."""
    facts = {METRICS[key].title: scores for key, scores in _sorted_by(scene, view).items()}
    return grid_payload(record, facts, exact_url=url)


def _facts(scene: Scene, record: AttentionRecord) -> None:
    """The chosen head in words and numbers."""
    view = state.current()
    st.subheader(head_name(*view.chosen), anchor=False)
    st.markdown(plain(in_words(record)))
    card(scene)
