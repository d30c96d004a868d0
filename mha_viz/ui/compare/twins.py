"""Twins: every head against every other, in order of layer or of likeness, and as a map."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
import torch

from mha_viz.core.compare import twins as measures
from mha_viz.core.measure import as_distances
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.output_pairs import LEAST_TOKENS
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.plots.head_map import head_map
from mha_viz.plots.similarity_matrix import HeadPairs, Marks, similarity_matrix
from mha_viz.ui.compare import TEXTS, pair
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state, views
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

N_NEAREST = 5  # pairs that are named above the matrix
# Pixels of the matrix, of a cell if possible, and of the list below a large matrix.
_SIDE, _LARGEST, _LEAST_CELL, _LISTED = 360, 1_000, 5, 265


class _Comparison(NamedTuple):
    """Findings in a matrix of heads; `apart` is it as distances."""

    matrix: np.ndarray
    apart: np.ndarray
    clustering: measures.Clustering
    places: np.ndarray
    explained: float
    nearest: pd.DataFrame


def draw(scene: Scene) -> None:
    """Draw the nearest pairs, the matrix with the chosen pair, the map, and clusters."""
    _controls(scene)
    view = state.of(views.Compare)
    make = partial(_compare, scene, view.measure, view.order)
    found = reporting.cached(scene, "twins", view.measure, view.order, make=make)
    if found is None:
        st.info(_why_not(scene, view.measure))
        if scene.head_count > 1:
            pair.chosen_pair(scene)
        return
    by_chance = reporting.chance(scene, view.measure)
    alone = _open_on_twin(scene, found.apart, by_chance)
    each = found.apart[np.triu_indices(len(found.apart), 1)]
    order = np.argsort(each, kind="stable")[: min(N_NEAREST, int(np.isfinite(each).sum()))]
    nearest = np.stack(pair.indices(scene), axis=1)[order]
    label = f"{pair.count_beyond(by_chance)} The nearest:"
    pair.strongest(scene, "nearest_pairs", label, nearest, each[order])
    limit = float(each[by_chance.pairs].max()) if by_chance.pairs.any() else None
    if alone:
        st.markdown(alone)
    groups = found.clustering.labels(view.clusters)
    large = scene.head_count * _LEAST_CELL > _SIDE

    def lists() -> None:
        nearest, clusters, *more = st.tabs(["Nearest twins", "Clusters", *["Map"] * large])
        with nearest:
            _twins(scene, found.nearest, by_chance)
        with clusters:
            _clusters(scene, groups, by_chance.pairs)
            _cover(scene, found.apart)
        for tab in more:
            with tab:
                _map(scene, found, groups)

    def matrix() -> None:
        _matrix(scene, found, limit)
        if large:  # beside a pair that stands below each other
            lists()

    pair.beside(scene, matrix, large)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(pair.given_by_chance(by_chance))
        if PAIR_MEASURES[view.measure] == "z":
            reporting.offer_random(view)
    if not large:
        look.beside([2, 3], lambda: _map(scene, found, groups), lists)
    pair.numbers(scene)


def _open_on_twin(scene: Scene, apart: np.ndarray, by_chance: reporting.Chance) -> str:
    """Put the chosen head beside its nearest twin beyond chance, unless a second one is chosen.

    Returns a sentence where it has none: its nearest head stands beside it.
    """
    if state.of(views.Compare).second != session().auto_second:
        return ""
    beyond = np.zeros(apart.shape, bool)
    beyond[np.triu_indices(len(apart), 1)] = by_chance.pairs
    first = pair.chosen_places(scene)[0]
    others = np.nan_to_num(apart[first], nan=np.inf)
    others[first] = np.inf
    twins = np.where((beyond | beyond.T)[first], others, np.inf)
    near = twins if np.isfinite(twins).any() else others
    if not np.isfinite(near).any():
        return ""
    layer, head = session().auto_second = words.place(int(near.argmin()), scene)
    state.change(layer_b=layer, head_b=head)
    if near is twins:
        return ""
    name = words.head_name(*state.of(views.Compare).chosen)
    return f"{name} has no twin beyond chance: its nearest head is shown beside it."


def _compare(scene: Scene, measure: str, order: str) -> _Comparison | None:
    """Compare all heads; None where the measure is not defined for any two."""
    matrix = reporting.likeness(scene, measure)
    apart = as_distances(torch.from_numpy(matrix), measure).numpy()
    if not np.isfinite(apart[~np.eye(len(apart), dtype=bool)]).any():
        return None
    clustering = measures.head_order(apart, by="cluster" if order == "cluster" else "layer")
    nearest = measures.nearest_twins(apart, scene.record.n_heads)
    return _Comparison(matrix, apart, clustering, *measures.classical_mds(apart), nearest)


def _controls(scene: Scene) -> None:
    known = {
        measure: METRICS[measure].title
        for measure, made_of in PAIR_MEASURES.items()
        if getattr(scene.record, made_of) is not None
    }
    if state.of(views.Compare).measure not in known:
        state.change(measure=next(iter(known)))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        choosing.menu("measure", "Measure", known, width=260)
        choosing.segments("order", "Order", views.ORDERS)
        state.bound("clusters", st.slider, "Clusters", 1, views.MAX_CLUSTERS, width=200)


def _matrix(scene: Scene, found: _Comparison, limit: float | None) -> None:
    view = state.of(views.Compare)
    metric, names, n_heads = METRICS[view.measure], words.names(scene), scene.record.n_heads
    found_in = found.matrix, names, found.clustering
    about: dict[str, Any] = {"unit": metric.shown_unit, "layer_numbers": words.layer_numbers()}
    pairs = HeadPairs(*found_in, n_heads=n_heads, chance=limit, **about)
    marks = Marks(view.clusters, view.chosen, pair.chosen_places(scene))
    limits, side = _span(view.measure), max(_SIDE, min(_LEAST_CELL * len(names), _LARGEST))
    looks: dict[str, Any] = {"title": metric.title, "side": side, "dark": look.dark()}
    on_the_tree = view.order == "cluster" and limit is not None
    tree = TEXTS("twins.tree") if on_the_tree else ""
    not_to_conclude = TEXTS(f"twins.not_to_conclude.{view.measure}")
    told = {"metric": metric, "tree": tree, "not_to_conclude": not_to_conclude}
    figures.show(
        similarity_matrix(pairs, limits=limits, diverging=limits[0] < 0, marks=marks, **looks),
        on_click=lambda clicked: words.choose_pair(clicked, scene),
        table=pd.DataFrame(found.matrix, columns=names, index=names).reset_index(names="Head"),
        caption=words.settings(scene, metric.title, f"order: {view.order}"),
        **TEXTS.figure("figures.twins", **told),
    )


def _map(scene: Scene, found: _Comparison, groups: np.ndarray) -> None:
    view, names = state.of(views.Compare), words.names(scene)
    spread = TEXTS("twins.kept" if np.isfinite(found.explained) else "twins.one_place", found=found)
    x, y = found.places.T
    title, clusters = METRICS[view.measure].title, groups if view.order == "cluster" else None
    looks: dict[str, Any] = {"selected": view.chosen, "dark": look.dark(), "clusters": clusters}
    looks["layer_numbers"] = words.layer_numbers()
    n_heads, explained = scene.record.n_heads, found.explained
    drawn = head_map(found.places, names, n_heads, explained=explained, **looks)
    table = pd.DataFrame({"Head": names, "x": x, "y": y})
    caption = words.settings(scene, title, "classical MDS")
    texts = TEXTS.figure("figures.map", title=title, kept=spread)
    figures.show(drawn, height=430, on_click=words.choose, table=table, caption=caption, **texts)


def _twins(scene: Scene, found: pd.DataFrame, by_chance: reporting.Chance) -> None:
    known = found.dropna().sort_values("distance", kind="stable")
    heads = known.index.to_numpy()
    twins = (known.twin_layer * scene.record.n_heads + known.twin_head).to_numpy(int)
    names = np.array(words.names(scene))
    columns = {
        "Head": names[heads],
        "Nearest": names[twins],
        "Distance": known.distance.to_numpy(),
        "Beyond chance": np.where(by_chance.twins[heads], "yes", "no"),
    }
    height = _LISTED if scene.head_count * _LEAST_CELL > _SIDE else "auto"
    pairs = np.stack((heads, twins), axis=1)
    pair.choosable(pd.DataFrame(columns), pairs, scene, key="nearest", height=height)
    missing = len(found) - len(known)
    lone = TEXTS("twins.lone", heads=words.count(missing, "head")) if missing else ""
    st.caption(TEXTS("twins.nearest", rate=pair.AT_RATE) + lone)


def _clusters(scene: Scene, groups: np.ndarray, beyond: np.ndarray) -> None:
    names = np.array(words.names(scene))
    i, j = np.triu_indices(len(groups), 1)
    rows = []
    for k in np.unique(groups[groups >= 0]):
        members = groups == k
        inside = members[i] & members[j]
        alike = f"{int(beyond[inside].sum())} of {int(inside.sum())}"
        rows.append((str(k + 1), int(members.sum()), alike, ", ".join(names[members])))
    found = pd.DataFrame(rows, columns=["Cluster", "Heads", "Pairs beyond chance", "Which"])
    st.table(found.set_index("Cluster"))  # its cells wrap: all heads are named
    st.caption(TEXTS("twins.clusters"))


def _cover(scene: Scene, apart: np.ndarray) -> None:
    view = state.of(views.Compare)
    likeness = 1 - apart / _span(view.measure)[1]
    cover = measures.covering_heads(likeness, min(view.clusters, len(likeness)))
    named = [words.head_name(*words.place(i, scene)) for i in cover.heads]
    steps = [f"{name} ({share:.0%})" for name, share in zip(named, cover.covered, strict=True)]
    covering = f"{words.count(len(named), 'head')} that cover{'s' * (len(named) == 1)} what all do"
    st.markdown(f"**{covering}:** {', '.join(steps)}")
    st.caption(TEXTS("twins.cover", title=METRICS[view.measure].title))


def _why_not(scene: Scene, measure: str) -> str:
    if scene.head_count < 2:
        return words.ONE_HEAD
    if len(scene.record.tokens) < LEAST_TOKENS and measure == "cka":
        return words.TOO_SHORT_FOR_CKA
    if len(scene.record.tokens) < 2 and measure in LIKENESS:
        return TEXTS("twins.one_token", title=METRICS[measure].title)
    return f"{METRICS[measure].title} is not defined for any two heads on this text."


def _span(measure: str) -> tuple[float, float]:
    if measure in ("correlation", "cka"):
        return (-1.0, 1.0)
    return (0.0, float(np.log(2)) if measure == "jensen_shannon" else 1.0)
