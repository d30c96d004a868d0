"""Similar heads: every head against every other, the nearest, clusters, and a scatter of pairs."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
import torch

from mha_viz.core.amounts import format_share
from mha_viz.core.compare import twins as measures
from mha_viz.core.measure import as_distances
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.output_pairs import LEAST_TOKENS
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.plots.head_map import head_map
from mha_viz.plots.similarity_matrix import HeadPairs, Marks, similarity_matrix
from mha_viz.ui.compare import TEXTS, pairs, panels, scatter
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection, views
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

N_NEAREST = 5  # pairs that are named above the matrix
_SIDE, _LARGEST, _LEAST_CELL = 400, 1_000, 5  # pixels of the matrix, and of a cell if possible


class _Comparison(NamedTuple):
    """Findings in a matrix of heads; `apart` is it as distances."""

    matrix: np.ndarray
    apart: np.ndarray
    clustering: measures.Clustering
    coordinates: np.ndarray
    explained: float
    nearest: pd.DataFrame


def draw(scene: Scene, view: Compare) -> None:
    """Draw the nearest pairs, the matrix beside the scatter, and lists of heads."""
    view = _controls(scene, view)
    if scene.head_count < 2:
        st.info(words.ONE_HEAD)
        return
    view = panels.fit_second(scene, view)
    make = partial(_compare, scene, view.measure, view.order)
    comparison = reporting.cached(scene, "twins", view.measure, view.order, make=make)
    right = partial(scatter.draw, scene, view)
    if comparison is None:
        st.info(_why_not(scene, view.measure))
        pairs.heading(scene, view)
        right()
        return
    by_chance = reporting.chance(scene, view.measure)
    each = comparison.apart[np.triu_indices(len(comparison.apart), 1)]
    order = np.argsort(each, kind="stable")[: min(N_NEAREST, int(np.isfinite(each).sum()))]
    nearest = np.stack(pairs.indices(scene), axis=1)[order]
    label = f"{pairs.count_beyond(by_chance)} The nearest:"
    pairs.strongest(scene, view, ("nearest_pairs", label), nearest, each[order])
    pairs.heading(scene, view)
    limit = float(each[by_chance.pairs].max()) if by_chance.pairs.any() else None
    large = scene.head_count * _LEAST_CELL > _SIDE
    look.beside([3, 2] if large else 2, partial(_matrix, scene, view, comparison, limit), right)
    _lists(scene, view, comparison, by_chance)


def _controls(scene: Scene, view: Compare) -> Compare:
    measures = {
        measure: METRICS[measure].title
        for measure, made_of in PAIR_MEASURES.items()
        if getattr(scene.record, made_of) is not None
    }
    if view.measure not in measures:
        selection.change(measure=next(iter(measures)))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("measure", "Measure", measures, width=230)
        choosing.segments("order", "Order", views.ORDERS)
        selection.bound("clusters", st.slider, "Clusters", 1, views.MAX_CLUSTERS, width=130)
        if scene.record.z is not None:
            choosing.menu("outputs", "Likeness of outputs", views.OUTPUTS, width=210)
            choosing.menu("space", "Colour: overlap of", views.SPACES, width=130)
    return selection.of(Compare)


def _compare(scene: Scene, measure: str, order: str) -> _Comparison | None:
    """Compare all heads; None where the measure is not defined for any two."""
    matrix = reporting.likeness(scene, measure)
    apart = as_distances(torch.from_numpy(matrix), measure).numpy()
    if not np.isfinite(apart[~np.eye(len(apart), dtype=bool)]).any():
        return None
    clustering = measures.head_order(apart, by="cluster" if order == "cluster" else "layer")
    nearest = measures.nearest_twins(apart, scene.record.n_heads)
    return _Comparison(matrix, apart, clustering, *measures.classical_mds(apart), nearest)


def _matrix(scene: Scene, view: Compare, comparison: _Comparison, limit: float | None) -> None:
    metric, names, n_heads = METRICS[view.measure], words.names(scene), scene.record.n_heads
    found_in = comparison.matrix, names, comparison.clustering
    about: dict[str, Any] = {"unit": metric.shown_unit, "layer_numbers": words.layer_numbers()}
    heads = HeadPairs(*found_in, n_heads=n_heads, chance=limit, **about)
    marks = Marks(view.clusters, view.chosen, pairs.chosen(scene, view))
    limits, side = _span(view.measure), max(_SIDE, min(_LEAST_CELL * len(names), _LARGEST))
    options: dict[str, Any] = {"title": metric.title, "side": side, "dark": look.dark()}
    on_the_tree = view.order == "cluster" and limit is not None
    tree = TEXTS("similar.tree") if on_the_tree else ""
    not_to_conclude = TEXTS(f"similar.not_to_conclude.{view.measure}")
    values = {"metric": metric, "tree": tree, "not_to_conclude": not_to_conclude}
    figures.show(
        similarity_matrix(heads, limits=limits, diverging=limits[0] < 0, marks=marks, **options),
        on_click=lambda clicked: words.choose_pair(clicked, scene),
        table=pd.DataFrame(comparison.matrix, columns=names, index=names).reset_index(names="Head"),
        caption=words.settings(scene, metric.title, f"order: {view.order}"),
        **TEXTS.figure("figures.twins", **values),
    )


def _lists(
    scene: Scene, view: Compare, comparison: _Comparison, by_chance: reporting.Chance
) -> None:
    """Draw the nearest of each head, clusters, their map, and what chance gives."""
    groups = comparison.clustering.labels(view.clusters)
    nearest, clusters, map_tab, chance = st.tabs(["Nearest", "Clusters", "Map", "By chance"])
    with nearest:
        _nearest(scene, view, comparison.nearest, by_chance)
    with clusters:
        _clusters(scene, groups, by_chance.pairs)
        _cover(scene, view, comparison.apart)
    with map_tab:
        _map(scene, view, comparison, groups)
    with chance:
        st.markdown(pairs.given_by_chance(by_chance) or pairs.TOO_SHORT)
        if PAIR_MEASURES[view.measure] == "z":
            reporting.offer_random(view)


def _map(scene: Scene, view: Compare, comparison: _Comparison, groups: np.ndarray) -> None:
    names, is_one_place = words.names(scene), not np.isfinite(comparison.explained)
    spread = TEXTS("similar.one_place" if is_one_place else "similar.kept", found=comparison)
    x, y = comparison.coordinates.T
    title, clusters = METRICS[view.measure].title, groups if view.order == "cluster" else None
    options: dict[str, Any] = {"selected": view.chosen, "dark": look.dark(), "clusters": clusters}
    options["layer_numbers"] = words.layer_numbers()
    n_heads, explained = scene.record.n_heads, comparison.explained
    drawn = head_map(comparison.coordinates, names, n_heads, explained=explained, **options)
    table = pd.DataFrame({"Head": names, "x": x, "y": y})
    caption = words.settings(scene, title, "classical MDS")
    texts = TEXTS.figure("figures.map", title=title, kept=spread)
    figures.show(drawn, height=430, on_click=words.choose, table=table, caption=caption, **texts)


def _nearest(
    scene: Scene, view: Compare, neighbours: pd.DataFrame, by_chance: reporting.Chance
) -> None:
    defined = neighbours.dropna().sort_values("distance", kind="stable")
    heads = defined.index.to_numpy()
    twins = (defined.twin_layer * scene.record.n_heads + defined.twin_head).to_numpy(int)
    names = np.array(words.names(scene))
    columns = {
        "Head": names[heads],
        "Nearest": names[twins],
        "Distance": defined.distance.to_numpy(),
        "Beyond chance": np.where(by_chance.twins[heads], "yes", "no"),
    }
    both = np.stack((heads, twins), axis=1)
    pairs.choosable(pd.DataFrame(columns), both, scene, view, "nearest")
    missing = len(neighbours) - len(defined)
    lone = TEXTS("similar.lone", heads=words.count(missing, "head")) if missing else ""
    st.caption(TEXTS("similar.nearest", rate=pairs.AT_RATE) + lone)


def _clusters(scene: Scene, groups: np.ndarray, beyond: np.ndarray) -> None:
    names = np.array(words.names(scene))
    i, j = np.triu_indices(len(groups), 1)
    rows = []
    for k in np.unique(groups[groups >= 0]):
        members = groups == k
        inside = members[i] & members[j]
        alike = f"{int(beyond[inside].sum())} of {int(inside.sum())}"
        rows.append((str(k + 1), int(members.sum()), alike, ", ".join(names[members])))
    table = pd.DataFrame(rows, columns=["Cluster", "Heads", "Pairs beyond chance", "Which"])
    st.table(table.set_index("Cluster"))  # its cells wrap: all heads are named
    st.caption(TEXTS("similar.clusters"))


def _cover(scene: Scene, view: Compare, apart: np.ndarray) -> None:
    likeness = 1 - apart / _span(view.measure)[1]
    cover = measures.covering_heads(likeness, min(view.clusters, len(likeness)))
    named = [words.head_name(*words.head_at(i, scene)) for i in cover.heads]
    shares = map(format_share, cover.covered)
    steps = [f"{name} ({share})" for name, share in zip(named, shares, strict=True)]
    covering = f"{words.count(len(named), 'head')} that cover{'s' * (len(named) == 1)} what all do"
    st.markdown(f"**{covering}:** {', '.join(steps)}")
    st.caption(TEXTS("similar.cover", title=METRICS[view.measure].title))


def _why_not(scene: Scene, measure: str) -> str:
    if len(scene.record.tokens) < LEAST_TOKENS and measure == "cka":
        return words.TOO_SHORT_FOR_CKA
    if len(scene.record.tokens) < 2 and measure in LIKENESS:
        return TEXTS("similar.one_token", title=METRICS[measure].title)
    return f"{METRICS[measure].title} is not defined for any two heads on this text."


def _span(measure: str) -> tuple[float, float]:
    if measure in ("correlation", "cka"):
        return (-1.0, 1.0)
    return (0.0, float(np.log(2)) if measure == "jensen_shannon" else 1.0)
