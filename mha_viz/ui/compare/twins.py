"""Twins: every head against every other, in order of layer or of likeness, and as a map."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.measure import LIKENESS
from mha_viz.core.metrics import METRICS
from mha_viz.core.twins import Clustering, classical_mds, covering_heads, head_order, nearest_twins
from mha_viz.plots.head_map import head_map
from mha_viz.plots.labels import head_name
from mha_viz.plots.twins import similarity_matrix
from mha_viz.ui import controls, figures, look, reporting, state
from mha_viz.ui.compare import words
from mha_viz.ui.compare.pair import pair
from mha_viz.ui.scene import Scene

NOT_TO_CONCLUDE = {
    "hellinger": "Two heads with the same weights may carry quite different values.",
    "jensen_shannon": "Two heads with the same weights may carry quite different values.",
    "correlation": "It compares coordinates that each head has chosen for itself; CKA does not.",
    "redundancy": "It compares coordinates that each head has chosen for itself; CKA does not.",
    "cka": "Alike on this text is not alike on all: heads may differ where nothing here asks.",
}


def draw(scene: Scene) -> None:
    """The matrix, the map, nearest twins, clusters; a click opens the pair."""
    _controls(scene)
    view = state.current()
    matrix = reporting.likeness(scene, view.measure)
    apart = 1 - np.abs(matrix) if view.measure in LIKENESS else matrix
    if not np.isfinite(apart[~np.eye(len(apart), dtype=bool)]).any():
        st.info(_why_not(scene, view.measure))
        return
    clustering = head_order(np.clip(apart, 0.0, None), by=view.order)
    groups = clustering.labels(view.clusters)
    _matrix(scene, matrix, clustering)
    pair(scene, (view.layer, view.head), (view.layer_b, view.head_b))
    left, right = st.columns(2, gap="medium")
    with left:
        _map(scene, apart, groups)
    with right:
        _twins(scene, apart)
    _clusters(scene, groups)
    _cover(scene, 1 - apart)


def _controls(scene: Scene) -> None:
    known = [m for m in state.MEASURES if scene.record.z is not None or m not in LIKENESS]
    if state.current().measure not in known:
        state.change(measure=known[0])
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        state.bound(
            "measure", st.selectbox, "Measure", known, width=260,
            format_func=lambda key: METRICS[key].title,
        )  # fmt: skip
        state.bound(
            "order", st.segmented_control, "Order", list(state.ORDERS),
            format_func={"layer": "By layer", "cluster": "By likeness"}.__getitem__,
        )  # fmt: skip
        state.bound(
            "clusters", st.slider, "Clusters", min_value=1, max_value=state.MAX_CLUSTERS, width=200
        )
    controls.pair_pickers(scene.record.n_layers, scene.record.n_heads)


def _matrix(scene: Scene, matrix: np.ndarray, clustering: Clustering) -> None:
    view = state.current()
    metric = METRICS[view.measure]
    names = words.names(scene)
    figure = similarity_matrix(
        matrix, names, clustering, n_heads=scene.record.n_heads, title=metric.title,
        unit=metric.unit, range=_span(view.measure), diverging=view.measure == "correlation",
        clusters=view.clusters, selected=(view.layer, view.head), dark=look.dark(),
    )  # fmt: skip
    figures.show(
        figure, key="twins", name=f"{view.measure}_heads",
        on_click=lambda found: words.choose_pair(found, scene),
        table=pd.DataFrame(matrix, columns=names, index=names).reset_index(names="Head"),
        caption=words.settings(scene, metric.title, f"order: {view.order}"),
        how_to_read=f"Each cell compares two heads: {metric.direction}. Click one to see both "
        f"below. {NOT_TO_CONCLUDE[view.measure]}",
    )  # fmt: skip


def _map(scene: Scene, apart: np.ndarray, groups: np.ndarray) -> None:
    view = state.current()
    places, explained = classical_mds(np.clip(apart, 0.0, None))
    figure = head_map(
        places, words.names(scene), scene.record.n_heads, explained=explained,
        clusters=groups if view.order == "cluster" else None, selected=(view.layer, view.head),
        dark=look.dark(),
    )  # fmt: skip
    figures.show(
        figure, key="map", name=f"{view.measure}_map",
        on_click=words.choose,
        table=pd.DataFrame({"Head": words.names(scene), "x": places[:, 0], "y": places[:, 1]}),
        caption=words.settings(scene, METRICS[view.measure].title, "classical MDS"),
        how_to_read="Heads that are near each other are alike, as far as two dimensions can show "
        f"it: they keep {explained:.0%} of the distances’ spread. The axes mean nothing.",
    )  # fmt: skip


def _twins(scene: Scene, apart: np.ndarray) -> None:
    found = nearest_twins(np.clip(apart, 0.0, None), scene.record.n_heads)
    known = found.dropna().sort_values("distance", kind="stable")
    table = pd.DataFrame(
        {
            "Head": [head_name(i, j) for i, j in zip(known.layer, known["head"], strict=True)],
            "Nearest": [
                head_name(i, j) for i, j in zip(known.twin_layer, known.twin_head, strict=True)
            ],
            "Distance": known.distance,
        }
    )
    st.markdown("**Nearest twin of every head**")
    st.dataframe(
        table, hide_index=True, height=420, width="stretch",
        column_config={"Distance": st.column_config.NumberColumn(format="%.4f")},
    )  # fmt: skip
    st.caption("0 is the same. Click a column to sort by it. " + _missing(len(found) - len(known)))


def _missing(n: int) -> str:
    return f"{n} heads have no twin: the measure is not defined for them." if n else ""


def _clusters(scene: Scene, groups: np.ndarray) -> None:
    names = np.array(words.names(scene))
    rows = [(int(k) + 1, int((groups == k).sum()), ", ".join(names[groups == k]))
            for k in np.unique(groups[groups >= 0])]  # fmt: skip
    st.markdown("**Clusters** (average linkage, cut into as many groups as the slider says)")
    st.dataframe(
        pd.DataFrame(rows, columns=["Cluster", "Heads", "Which"]), hide_index=True, width="stretch"
    )


def _cover(scene: Scene, likeness: np.ndarray) -> None:
    k = min(state.current().clusters, len(likeness))
    cover = covering_heads(likeness, k)
    named = [head_name(*words.place(i, scene)) for i in cover.heads]
    steps = ", ".join(
        f"{name} ({share:.0%})" for name, share in zip(named, cover.covered, strict=True)
    )
    st.markdown(f"**{k} heads that cover what all do:** {steps}")
    st.caption(
        "Chosen one after the other, each the head that makes the rest look most like their "
        "nearest chosen one (facility location, at least 63 % of the best choice). The share is "
        f"the mean likeness covered so far, in {METRICS[state.current().measure].title}."
    )


def _why_not(scene: Scene, measure: str) -> str:
    if scene.record.n_layers * scene.record.n_heads < 2:
        return "There is one head only: it has nothing to be compared with."
    if len(scene.record.tokens) < 2 and measure in LIKENESS:
        return (
            f"{METRICS[measure].title} is not defined on a text of one token: what heads write "
            "does not vary. Type a longer text."
        )
    return f"{METRICS[measure].title} is not defined for any two heads on this text."


def _span(measure: str) -> tuple[float, float]:
    if measure == "correlation":
        return (-1.0, 1.0)
    return (0.0, float(np.log(2)) if measure == "jensen_shannon" else 1.0)
