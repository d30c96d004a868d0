"""The view Score: one attention score decomposed, and queries and keys of all heads as maps."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.attribution.query_key_map import query_key_map as map_of
from mha_viz.circuits.attribution.score_attribution import ScoreAttribution, score_attribution
from mha_viz.core.compare.query_key_map import MAX_POINTS, QueryKeyMap
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.engine.model import AttentionModel
from mha_viz.plots.bars import share_matrix, signed_rows
from mha_viz.ui.heads import WORDS
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.session import to_browser
from mha_viz.ui.state.views import TITLES, Why
from mha_viz.ui.why import TEXTS, targets
from mha_viz.ui.why import several_texts as texts_of
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.component import LateComponent
from mha_viz.ui.widgets.components.head_grid import draw_heads
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import notes, number_columns
from mha_viz.web.payload import MAP_FACTS, map_payload
from mha_viz.web.theme import format_number, format_weight

N_SHOWN = 12  # components of either side; the others are summed
UNIT = "of the score before softmax"
N_PRODUCTS = 3  # pairs of components that the answer names


def draw(scene: Scene, view: Why) -> None:
    """Draw the decomposition of one attention score, or the map of queries and keys."""
    if view.score == "map":
        _draw_map(scene, view)
        return
    query, key, versus = _pickers(scene, view)
    size = 8 * (scene.head_count + 5 * scene.record.n_layers + 9) ** 2
    cell = *view.chosen, query, key, versus
    attribution = targets.of_text(scene, score_attribution, *cell, size=size)
    targets.whole_and_parts(attribution, _quantity(attribution))
    look.beside([3, 2], partial(_matrix, scene, attribution), partial(_sides, scene, attribution))
    _answer(scene, attribution)
    st.caption(TEXTS("targets.frozen"))
    with st.container(horizontal=True):
        choosing.open_in_heads()
        label, icon = f"Words of {words.head_name(*view.chosen)}", ":material/open_in_new:"
        if st.button(label, icon=icon, key="open_words"):
            to_browser(WORDS, True)
            choosing.open_page("heads", show="numbers")


def _pickers(scene: Scene, view: Why) -> tuple[int, int, int | None]:
    """Draw menus for the head, the query, the key and another key; return the tokens' positions."""
    labels = targets.first_labels(scene)
    best = _strongest_pair(scene.record, view.chosen)
    query = view.query if 0 <= view.query < len(labels) else min(best[0], len(labels) - 1)
    visible = visible_keys(scene.record, view.layer)[query, : len(labels)]
    keys = visible.nonzero().flatten().tolist()
    row = scene.record.head(*view.chosen)[query].tolist()
    key = view.key if view.key in keys else max(keys, key=row.__getitem__, default=0)
    token_labels = words.position_names(labels)
    other_keys = {-1: "(no other)"} | {i: token_labels[i] for i in keys if i != key}
    versus = view.versus_key if view.versus_key in other_keys else -1
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _switch()
        choosing.head_menus(scene.record.n_layers, scene.record.n_heads)
        choosing.menu("query", "Looks (query)", token_labels, displayed=query, width=150)
        at = {i: token_labels[i] for i in keys}
        choosing.menu("key", "Looked at (key)", at, displayed=key, width=150)
        choosing.menu("versus_key", "and not at", other_keys, displayed=versus, width=150)
    return query, key, None if versus < 0 else versus


def _switch() -> None:
    choosing.segments("score", "Picture", TITLES["scores"], label_visibility="collapsed")


def _quantity(attribution: ScoreAttribution) -> str:
    name, label = (
        words.head_name(attribution.layer, attribution.head),
        [token.text for token in attribution.tokens],
    )
    pair = f"from “{label[attribution.query]}” to “{label[attribution.key]}”"
    less = "" if attribution.versus is None else f" less that to “{label[attribution.versus]}”"
    return f"the score of {name} {pair}{less}"


def _answer(scene: Scene, attribution: ScoreAttribution) -> None:
    """Name the products that make most of a score, and the weight after softmax."""
    shares = attribution.shares.numpy()
    order = np.argsort(-np.abs(shares), axis=None, kind="stable")[:N_PRODUCTS]
    largest = [
        f"{attribution.query_components[i].name} in the query × "
        f"{attribution.key_components[j].name} in the key ({targets.signed(shares[i, j])})"
        for i, j in (divmod(int(at), shares.shape[1]) for at in order)
    ]
    row = scene.record.head(attribution.layer, attribution.head)[attribution.query]
    weights = (
        f"Softmax makes of the scores a weight of {format_weight(float(row[attribution.key]))}"
    )
    if attribution.versus is not None:
        weights += f", and of {format_weight(float(row[attribution.versus]))} for the other key"
    lead = "No product, and a part of its own:"
    beyond = [
        f" {lead} {name}, {format_number(share)}." for name, share in attribution.beyond.items()
    ]
    st.markdown(words.plain(f"Most of it: {'; '.join(largest)}. {weights}.{''.join(beyond)}"))


def _matrix(scene: Scene, attribution: ScoreAttribution) -> None:
    shares = attribution.shares.numpy()
    rows = [component.name for component in attribution.query_components]
    columns = [component.name for component in attribution.key_components]
    shown, down = _largest(shares, rows)
    shown, across = _largest(shown.T, columns)
    drawn = share_matrix(shown.T, down, across, UNIT, title="Query × key", dark=look.dark())
    table = attribution.table()
    caption = words.settings(
        scene, _quantity(attribution), "before softmax, scales of norms frozen"
    )
    texts = TEXTS.figure("figures.score_matrix", whole=_quantity(attribution))
    figures.show(drawn, table=table, caption=caption, **texts)


def _sides(scene: Scene, attribution: ScoreAttribution) -> None:
    sides = {"query": (1, attribution.query_components), "key": (0, attribution.key_components)}
    for side, (axis, components) in sides.items():
        names, sums = (
            [component.name for component in components],
            attribution.shares.numpy().sum(axis),
        )
        values, labels = _largest(sums[:, None], names)
        texts = TEXTS.figure("figures.score", whole=_quantity(attribution), side=side)
        texts["key"] = f"score_{side}"
        drawn = signed_rows(labels, values[:, 0], UNIT, title=f"In the {side}", dark=look.dark())
        table = pd.DataFrame({"component": names, "share": sums})
        caption = words.settings(scene, _quantity(attribution), side)
        figures.show(drawn, table=table, caption=caption, **texts)


def _largest(
    values: NDArray[np.floating], names: Sequence[str]
) -> tuple[NDArray[np.floating], list[str]]:
    """Return the largest rows in their order, and the sum of all others as the last one."""
    if len(values) <= N_SHOWN:
        return values, list(names)
    most = np.argsort(-np.abs(values).sum(1), kind="stable")[: N_SHOWN - 1]
    largest = np.sort(most)
    remainder = np.delete(values, largest, axis=0).sum(0, keepdims=True)
    return np.r_[values[largest], remainder], [
        *(names[i] for i in largest),
        f"{len(values) - len(largest)} more",
    ]


N_MAPS = 5  # heads that are named above the maps
_map = LateComponent("query_key_map")
_BYTES = 72  # of a token and a head: places, the strongest keys, and both again as a payload


def _draw_map(scene: Scene, view: Why) -> None:
    """Draw the maps of all heads, the chosen one large, and its numbers."""
    with st.container(horizontal=True, vertical_alignment="center"):
        _switch()
        with st.popover("Texts on the map", key="map-texts"):
            texts_of.box(scene)
    texts = texts_of.measured(scene)
    n_tokens = min(len(scene.record.tokens) * len(texts), MAX_POINTS // 2)

    def make(model: AttentionModel) -> tuple[QueryKeyMap, bytes]:
        maps = map_of(model, texts)
        return maps, map_payload(maps)

    size = _BYTES * scene.head_count * n_tokens
    maps, payload = targets.computed(scene, "map", texts, make=make, size=size)
    with st.container(gap=None):
        _map.bring("query_key_map-script")
        settings = {"fact": MAP_FACTS["plane_correlation"]}
        choose: dict[str, Any] = {"selected": view.chosen, "on_select": words.choose}
        draw_heads(_map, payload, settings, key="query_key_map", **choose)
    _best(maps, view)
    _explain(scene, maps, view.chosen)
    notes(maps.notes)


def _best(maps: QueryKeyMap, view: Why) -> None:
    """Name the heads in whose maps distance predicts the weight best."""
    table = maps.table().head(N_MAPS)
    named = zip(table["layer"].tolist(), table["head"].tolist(), strict=True)
    heads = words.by_position(list(named))
    numbers = table["plane_correlation"].tolist()
    offered = {
        head: f"{words.head_name(*head)}: {format_number(number, digits=2)}"
        for head, number in zip(heads, numbers, strict=True)
        if np.isfinite(number)
    }
    label = "**Maps that follow the weights best**"
    choosing.chips("best_maps", label, offered, chosen=view.chosen, take=words.choose)


def _explain(scene: Scene, maps: QueryKeyMap, chosen: tuple[int, int]) -> None:
    (named,) = words.by_number([chosen])
    dark, points = look.dark(), maps.points_table(*named)

    def tables() -> None:
        for name, table in (("heads", maps.table()), ("points", points)):
            key, columns = f"query_key_map-{name}", number_columns(table)
            st.dataframe(table, hide_index=True, key=key, placeholder="–", column_config=columns)

    figures.explain(
        lambda: maps.figure(*named, dark=dark),
        table=points,
        draw=tables,
        caption=words.settings(scene, f"{len(maps.texts)} texts", f"by {maps.method.upper()}"),
        **TEXTS.figure("figures.query_key_map", name=words.head_name(*chosen)),
    )


def _strongest_pair(record: AttentionRecord, head: tuple[int, int]) -> tuple[int, int]:
    """Return the query and the key of a head's largest weight.

    The first token of a causal model has weight 1 in every head, and is left out unless it is the
    whole text.
    """
    n_queries, n_keys = record.shape[2:]
    first = int(record.causal and not record.is_cross and len(record.tokens) > 1)
    query, key = divmod(int(record.head(*head)[first:n_queries].argmax()), n_keys)
    return first + query, key
