"""Who reads whom, by weights: composition of every head with every later one, against chance."""

from __future__ import annotations

from collections.abc import Hashable

import pandas as pd
import streamlit as st

from mha_viz.circuits.composition import KINDS, Composition, composition
from mha_viz.ui.circuits import pairs
from mha_viz.ui.session import memory, state
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.session.views import THROUGH
from mha_viz.ui.widgets import words
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.theme import format_number

CHANCE = (
    "z is how many standard deviations (score)² lies above its mean for random matrices of the "
    "same shape and the same singular values: raw scores are larger where a head has few large "
    "ones, and mislead. It tells what could be read by the weights; whether it is on a text, "
    "weights do not say."
)


def draw(scene: Scene) -> None:
    """The map of all pairs, and what Q-, K- and V-composition say of one."""
    pairs.through_picker()
    if pairs.none_to_show(scene):
        return
    found = _composition(state.current().through)
    zscore, n_heads = found.zscore.numpy(), found.n_heads
    pairs.chips("most_composed", "**Furthest from chance (z)**", zscore, n_heads)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        pairs.draw_map(
            scene,
            zscore,
            key="composition",
            title=f"{found.kind}-composition, z-score",
            more={"score": found.score.numpy()},
            how_to_read="Blue is more than chance, orange less; click a cell for its pair.",
            caption=words.settings(scene, f"{found.kind}-composition by weights"),
        )
    with right:
        _pair(pairs.shown_pair(zscore, n_heads))
        for note in found.notes:
            st.caption(plain(note))
        st.caption(CHANCE)


def _composition(kind: str) -> Composition:
    """It follows from the weights alone: made once for all texts."""
    model = memory.model(*state.current().checkpoint)
    key: Hashable = (*state.current().checkpoint, "composition", kind)

    def make() -> Composition:
        with st.spinner("Comparing weights …"):
            return composition(model, kind)

    return memory.cache().get(key, make, lambda made: 2 * made.score.nbytes)


def _pair(pair: pairs.Pair) -> None:
    """All three compositions of one pair."""
    pairs.two_heads(pair)
    rows = []
    for kind in KINDS:
        found = _composition(kind)
        writer, reader = (layer * found.n_heads + head for layer, head in pair)
        score, z = float(found.score[writer, reader]), float(found.zscore[writer, reader])
        numbers = (format_number(one) for one in (score, found.expected, z))
        rows.append((f"{kind}: {THROUGH[kind]}", *numbers))
    table = pd.DataFrame(rows, columns=["Read into", "Score", "By chance", "z"])
    st.table(table.set_index("Read into"), width="stretch")
