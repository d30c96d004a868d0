"""Why a head looks there: one score by what was written to its query and to its key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.score_attribution import ScoreAttribution, score_attribution
from mha_viz.core.visible import visible_keys
from mha_viz.engine.model import AttentionModel
from mha_viz.plots.shares import share_matrix, signed_rows
from mha_viz.ui.circuits import asked
from mha_viz.ui.explore.head_pictures import strongest_pair
from mha_viz.ui.session import state
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import choosing, controls, figures, look, words
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number, format_weight

N_SHOWN = 12  # components of either side; the others are summed
UNIT = "of the score before softmax"
N_NAMED = 3  # pairs of components that the answer names


def draw(scene: Scene) -> None:
    """The score of one pair of tokens in the chosen head, taken apart."""
    query, key, versus = _pickers(scene)
    found = _attribution(scene, query, key, versus)
    _answer(scene, found)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _matrix(scene, found)
    with right:
        _sides(scene, found)


def _pickers(scene: Scene) -> tuple[int, int, int | None]:
    """Menus for the head, the token that looks, the one it looks at, and another one."""
    view, labels = state.current(), asked.first_labels(scene)
    best = strongest_pair(scene.record, *view.chosen)
    query = view.query if 0 <= view.query < len(labels) else min(best[0], len(labels) - 1)
    seen = visible_keys(scene.record, view.layer)[query, : len(labels)].nonzero().flatten().tolist()
    key = view.key if view.key in seen else _heaviest(scene, query, seen)
    places = words.places(labels)
    others = {-1: "(no other)"} | {i: places[i] for i in seen if i != key}
    versus = view.versus_key if view.versus_key in others else -1
    record = scene.record
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.head_menus(record.n_layers, record.n_heads)
        choosing.menu("query", "Looks (query)", places, displayed=query, width=160)
        at = {i: places[i] for i in seen}
        choosing.menu("key", "Looked at (key)", at, displayed=key, width=160)
        choosing.menu("versus_key", "and not at", others, displayed=versus, width=160)
        controls.open_in_explore()
    return query, key, None if versus < 0 else versus


def _heaviest(scene: Scene, query: int, seen: Sequence[int]) -> int:
    """Of the keys that a query sees, the one that it gives most weight."""
    row = scene.record.head(*state.current().chosen)[query]
    return max(seen, key=lambda i: float(row[i]), default=0)


def _attribution(scene: Scene, query: int, key: int, versus: int | None) -> ScoreAttribution:
    chosen = state.current().chosen

    def make(model: AttentionModel) -> ScoreAttribution:
        return score_attribution(model, scene.text, *chosen, query, key, versus)

    size = 8 * (scene.head_count + 5 * scene.record.n_layers + 9) ** 2
    return asked.computed(scene, "score", chosen, query, key, versus, make=make, size=size)


def _whole(found: ScoreAttribution) -> str:
    """What is taken apart, in words."""
    name, label = head_name(found.layer, found.head), [token.text for token in found.tokens]
    pair = f"from “{label[found.query]}” to “{label[found.key]}”"
    less = "" if found.versus is None else f" less that to “{label[found.versus]}”"
    return f"the score of {name} {pair}{less}"


def _answer(scene: Scene, found: ScoreAttribution) -> None:
    """The sum, the weight that softmax makes of it, and the largest parts."""
    asked.whole_and_parts(found, _whole(found))
    shares = found.shares.numpy()
    order = np.argsort(-np.abs(shares), axis=None, kind="stable")[:N_NAMED]
    largest = [
        f"{found.query_components[i].name} in the query × {found.key_components[j].name} in the "
        f"key ({asked.signed(shares[i, j])})"
        for i, j in (divmod(int(at), shares.shape[1]) for at in order)
    ]
    row = scene.record.head(found.layer, found.head)[found.query]
    weights = f"Softmax makes of the scores a weight of {format_weight(float(row[found.key]))}"
    if found.versus is not None:
        weights += f", and of {format_weight(float(row[found.versus]))} for the other key"
    beyond = "".join(
        f" No product, and a part of its own: {name}, {format_number(share)}."
        for name, share in found.beyond.items()
    )
    st.markdown(plain(f"Most of it: {'; '.join(largest)}. {weights}.{beyond}"))


def _matrix(scene: Scene, found: ScoreAttribution) -> None:
    shares = found.shares.numpy()
    rows = [component.name for component in found.query_components]
    columns = [component.name for component in found.key_components]
    shown, down = _largest(shares, rows)
    shown, across = _largest(shown.T, columns)
    figures.show(
        share_matrix(shown.T, down, across, UNIT, title="Query × key", dark=look.dark()),
        key="score_matrix",
        name=f"Parts of {_whole(found)}",
        table=found.table(),
        caption=words.settings(scene, _whole(found), "before softmax, scales of norms frozen"),
        how_to_read="Rows are what earlier parts of the model wrote into the query, columns what "
        "they wrote into the key; each cell is the score that the two make together. The table "
        "has every part.",
    )


def _sides(scene: Scene, found: ScoreAttribution) -> None:
    """Rows and columns of the matrix summed."""
    shares = found.shares.numpy()
    for side, sums, components in (
        ("query", shares.sum(1), found.query_components),
        ("key", shares.sum(0), found.key_components),
    ):
        names = [component.name for component in components]
        values, labels = _largest(sums[:, None], names)
        figures.show(
            signed_rows(labels, values[:, 0], UNIT, title=f"In the {side}", dark=look.dark()),
            key=f"score_{side}",
            name=f"Parts of {_whole(found)} in the {side}",
            table=pd.DataFrame({"component": names, "share": sums}),
            caption=words.settings(scene, _whole(found), side),
            how_to_read=f"What each part of the {side} adds, with all of the other side.",
        )


def _largest(
    values: NDArray[np.floating], names: Sequence[str]
) -> tuple[NDArray[np.floating], list[str]]:
    """The rows that hold most, in their order, and the sum of all others as the last one."""
    if len(values) <= N_SHOWN:
        return values, list(names)
    most = np.argsort(-np.abs(values).sum(1), kind="stable")[: N_SHOWN - 1]
    kept = np.sort(most)
    rest = np.delete(values, kept, axis=0).sum(0, keepdims=True)
    return np.r_[values[kept], rest], [*(names[i] for i in kept), f"{len(values) - len(kept)} more"]
