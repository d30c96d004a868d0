"""All queries and keys of the texts in one plane for each head."""

import numpy as np
import streamlit as st

from mha_viz.circuits.decompose.query_key_map import MAX_POINTS, QueryKeyMap
from mha_viz.circuits.decompose.query_key_map import query_key_map as map_of
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.circuits import TEXTS
from mha_viz.ui.circuits.targets import computed
from mha_viz.ui.intervene import importance
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.query_key_map import payload_of, query_key_map
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.labels import head_name

N_NAMED = 5  # heads that are named above the maps
_BYTES = 72  # of a token and a head: places, the strongest keys, and both again as a payload


def draw(scene: Scene) -> None:
    """Draw the maps of all heads, the chosen one large, and its numbers."""
    importance.texts_box(scene, "Texts on the map")
    texts = importance.texts(scene)
    n_tokens = min(len(scene.record.tokens) * len(texts), MAX_POINTS // 2)

    def make(model: AttentionModel) -> tuple[QueryKeyMap, bytes]:
        found = map_of(model, texts)
        return found, payload_of(found)

    size = _BYTES * scene.head_count * n_tokens
    found, payload = computed(scene, "map", texts, make=make, size=size)
    _best(found)
    chosen = state.of(Circuits).chosen
    query_key_map(payload, selected=chosen, key="query_key_map", on_select=words.choose)
    _explain(scene, found, chosen)
    for note in found.notes:
        st.caption(plain(note))


def _best(found: QueryKeyMap) -> None:
    """Name the heads in whose maps near means a high weight most."""
    table = found.table().head(N_NAMED)
    heads = zip(table["layer"].tolist(), table["head"].tolist(), strict=True)
    numbers = table["plane_correlation"].tolist()
    offered = {
        head: f"{head_name(*head)}: {number:.2f}"
        for head, number in zip(heads, numbers, strict=True)
        if np.isfinite(number)
    }
    label, chosen = "**Maps that follow the weights best**", state.of(Circuits).chosen
    choosing.chips("best_maps", label, offered, chosen=chosen, take=words.choose)


def _explain(scene: Scene, found: QueryKeyMap, chosen: tuple[int, int]) -> None:
    dark, points = look.dark(), found.points_table(*chosen)

    def tables() -> None:
        st.dataframe(found.table(), hide_index=True, key="query_key_map-heads")
        st.dataframe(points, hide_index=True, key="query_key_map-points", placeholder="–")

    figures.explain(
        lambda: found.figure(*chosen, dark=dark),
        table=points,
        draw=tables,
        caption=words.settings(scene, f"{len(found.texts)} texts", f"by {found.method.upper()}"),
        **TEXTS.figure("figures.query_key_map", name=head_name(*chosen)),
    )
