"""The pictures of the Explore page and what stands beside them.

Knows scenes, plots and components. Importing it imports torch and plotly, so pages do it late.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mha_viz.capture.model import AttentionModel
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.record import AttentionRecord
from mha_viz.plots.labels import head_name
from mha_viz.plots.payload import grid_payload
from mha_viz.ui import controls, exports, folded, memory, reporting, state, words
from mha_viz.ui.card import card
from mha_viz.ui.components.head_grid import head_grid
from mha_viz.ui.head_pictures import PICTURES, in_words
from mha_viz.ui.messages import plain, shown
from mha_viz.ui.scene import Facts, Scene
from mha_viz.ui.scene import compute as compute
from mha_viz.ui.scene import fit_head as fit_head
from mha_viz.ui.scene import shown as shown_record
from mha_viz.ui.views import View


def load_model(view: View) -> AttentionModel:
    """The view's model, shared with all users who have chosen the same."""
    with st.spinner(f"Loading {plain(view.model)} …"):
        return memory.model(view.model, view.device, view.dtype)


def model_facts(model: AttentionModel) -> None:
    """What the chosen model is, and what its owner should know."""
    shared = f" ({model.n_kv_heads} key heads)" if model.n_kv_heads != model.n_heads else ""
    st.markdown(
        f"**{plain(model.name)}** is a {plain(model.family)} model: {model.n_layers} layers of "
        f"{model.n_heads} heads{shared}, d_model {model.d_model}, d_head {model.d_head}, texts of "
        f"up to {model.n_ctx} tokens, on {plain(str(model.device))}."
    )
    for note in model.notes:
        st.warning(plain(note), icon=":material/info:")


def heads(scene: Scene) -> None:
    """All heads, and one of them."""
    titles = {key: METRICS[key].title for key in scene.facts}
    kinds = {key: label.title for key, label in LABELS.items()}
    controls.grid_options(titles, kinds, scene.has_special)
    _heads(scene, {})


@st.fragment
def _heads(scene: Scene, urls: exports.Urls) -> None:
    """A click reruns this and nothing else of the page; `urls` live until the page runs again."""
    with shown():
        view = state.current()
        record = shown_record(scene, view)
        _status(scene, record)
        _all_heads(scene, record, exports.exact_url(record, view, urls))
        with st.container(horizontal=True, vertical_alignment="bottom"):
            controls.head_options(record.n_layers, record.n_heads)
            exports.menu(scene, record, _explored)
        picture, facts = st.columns([3, 2], gap="medium")
        with picture:
            PICTURES[state.current().show](scene, record)
        with facts:
            _facts(scene, record)
        state.publish()


def _status(scene: Scene, record: AttentionRecord) -> None:
    layers, n_heads, queries, keys = record.pattern.shape
    unit = "words" if record.merged else "tokens"
    size = f"{queries} {unit}" if queries == keys else f"{queries} queries × {keys} keys"
    st.caption(
        f"{layers} layers × {n_heads} heads · {size} · computed in {1000 * scene.seconds:.0f} ms"
    )
    words.cut_off(record)
    if record.removed_mass is not None:
        view = state.current()
        mean = float(record.removed_mass.mean())
        mine = float(record.removed_mass[view.layer, view.head])
        st.caption(
            f"What was left out held {mean:.1%} of the weight over all heads, and {mine:.1%} of "
            f"{head_name(view.layer, view.head)}’s. The rest of each row is scaled to a sum of 1."
        )


def _all_heads(scene: Scene, record: AttentionRecord, url: str | None) -> None:
    view = state.current()
    order = _chosen_heads(scene, view)
    if order == []:
        st.info("No head of this model is of that kind on this text.", icon=":material/filter_alt:")
        return
    key = (scene.key, view.words, view.no_special, view.no_first, view.sort, url)
    payload = memory.cache().get(key, lambda: _explored(scene, record, view, url), len)
    chosen = head_grid(
        payload, selected=(view.layer, view.head), order=order, scale=view.scale,
        fact=METRICS[view.sort].title if view.sort in scene.facts else None, key="grid",
    )  # fmt: skip
    if chosen is not None and chosen != (view.layer, view.head):
        state.change(layer=chosen[0], head=chosen[1], query=-1, key=-1)
    number = st.column_config.NumberColumn(format="%.4f")
    folded.table(
        "All heads as a table", "heads-table", lambda: facts_table(scene), hide_index=True,
        placeholder=words.UNDEFINED,
        column_config={METRICS[key].title: number for key in scene.facts},
    )  # fmt: skip


def _chosen_heads(scene: Scene, view: View) -> list[tuple[int, int]] | None:
    """The heads to be drawn in their order; None for all of them as a matrix."""
    record = scene.record
    heads = [(i, j) for i in range(record.n_layers) for j in range(record.n_heads)]
    scores = scene.facts.get(view.sort)
    if scores is not None:
        heads = [h for h in heads if scores[h] >= view.least]
        heads.sort(key=lambda h: -scores[h])
    if view.only:
        labels = reporting.report(scene, view).labels
        heads = [(i, j) for i, j in heads if any(f.label.key == view.only for f in labels[i][j])]
    return heads if scores is not None or view.only else None


def facts_table(scene: Scene) -> pd.DataFrame:
    """A row per head, a column per metric."""
    layers, n_heads = scene.record.n_layers, scene.record.n_heads
    names = [head_name(i, j) for i in range(layers) for j in range(n_heads)]
    columns = {METRICS[key].title: values.ravel() for key, values in scene.facts.items()}
    return pd.DataFrame({"Head": names, **columns})


def _explored(scene: Scene, record: AttentionRecord, view: View, url: str | None = None) -> bytes:
    """All heads with the metric they are sorted by."""
    facts = {METRICS[view.sort].title: scene.facts[view.sort]} if view.sort in scene.facts else {}
    return grid_bytes(record, facts, url)


def grid_bytes(
    record: AttentionRecord, facts: Facts | None = None, url: str | None = None
) -> bytes:
    """All heads as the browser draws them.

    Args:
        facts: quantities (layer, head) by name, shown with a head's name.
        url: where the browser finds the exact weights.
    """
    return grid_payload(
        record.pattern.numpy(), record.labels, record.key_labels, facts=facts, exact_url=url,
        query_special=[t.is_special for t in record.tokens],
        key_special=[t.is_special for t in record.key_tokens],
        query_segments=[t.segment for t in record.tokens],
        key_segments=[t.segment for t in record.key_tokens],
        title=f"{record.model} on “{record.text[:80]}”",
    )  # fmt: skip


def _facts(scene: Scene, record: AttentionRecord) -> None:
    """The chosen head in words and numbers."""
    view = state.current()
    st.subheader(head_name(view.layer, view.head), anchor=False)
    st.markdown(plain(in_words(record)))
    card(scene)
