"""Weights that read each other: composition of every head with every later one, against chance."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import pandas as pd
import streamlit as st

from mha_viz.circuits.weights.composition import KINDS, Composition, composition
from mha_viz.circuits.weights.ov_circuit import FavouredPairs, copying_scores, favoured_pairs
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.circuits import TEXTS, pairs
from mha_viz.ui.circuits.targets import draw_heads, known_parts, signed
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import THROUGH, Circuits
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

T = TypeVar("T")


def draw(scene: Scene) -> None:
    """Draw the map of all pairs, and what Q-, K- and V-composition say of one."""
    pairs.through_picker()
    if pairs.lacks_pairs(scene):
        return
    found = _composition(state.of(Circuits).through)
    zscore, n_heads = found.zscore.numpy(), found.n_heads
    pairs.chips("most_composed", "**Furthest from chance (z)**", zscore, n_heads)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        pairs.draw_map(
            scene,
            zscore,
            more={"score": found.score.numpy()},
            caption=words.settings(scene, f"{found.kind}-composition by weights"),
            **TEXTS.figure("figures.composition", kind=found.kind),
        )
    with right:
        _pair(pairs.shown_pair(zscore, n_heads))
        for note in found.notes:
            st.caption(plain(note))
        st.caption(TEXTS("composition.chance"))
    st.header("Who copies", anchor=False)
    with known_parts():
        _copying(scene)


def _copying(scene: Scene) -> None:
    found = of_weights("copying", make=copying_scores, size=50_000)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        draw_heads(
            found.score.numpy(),
            "Copying score",
            table=found.table(),
            caption=words.settings(scene, "OV circuits by weights"),
            **TEXTS.figure("figures.copying"),
        )
    with right:
        layer, head = state.of(Circuits).chosen
        name, share = head_name(layer, head), float(found.positive_share[layer, head])
        score, z = signed(found.score[layer, head]), signed(found.zscore[layer, head])
        st.markdown(TEXTS("composition.copying", name=name, score=score, z=z, share=share))
        lazy_sections.in_expander(f"Tokens {name} favours", "favoured", _favoured)


def _favoured() -> None:
    layer, head = state.of(Circuits).chosen
    found: FavouredPairs = of_weights(
        *("favoured", layer, head), make=lambda one: favoured_pairs(one, layer, head), size=20_000
    )
    st.dataframe(found.pairs[["source", "destination", "strength"]], hide_index=True)
    error = "" if found.exact else f" ± {found.copied_error:.1%}"
    st.caption(TEXTS("composition.favoured", found=found, error=error))


def _composition(kind: str) -> Composition:
    model = memory.model(*state.of(Circuits).checkpoint)
    size = 8 * (model.n_layers * model.n_heads) ** 2  # two matrices of float32
    return of_weights("composition", kind, make=lambda one: composition(one, kind), size=size)


def of_weights(*what: Hashable, make: Callable[[AttentionModel], T], size: int) -> T:
    """Return what follows from the weights alone, computed once for all texts."""
    model = memory.model(*state.of(Circuits).checkpoint)

    def made() -> T:
        with st.spinner("Comparing weights …"):
            return make(model)

    key: Hashable = (*state.of(Circuits).checkpoint, "circuits", *what)
    return memory.cache().get(key, made, lambda _: size)


def _pair(pair: pairs.Pair) -> None:
    st.header(pairs.named(pair), anchor=False)
    rows = []
    for kind in KINDS:
        found = _composition(kind)
        writer, reader = pairs.numbers(pair, found.n_heads)
        score, z = float(found.score[writer, reader]), float(found.zscore[writer, reader])
        numbers = (format_number(one) for one in (score, found.expected, z))
        rows.append((f"{kind}: {THROUGH[kind]}", *numbers))
    table = pd.DataFrame(rows, columns=["Read into", "Score", "By chance", "z"])
    st.table(table.set_index("Read into"), width="stretch")
