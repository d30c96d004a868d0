"""Look alike, do alike? Every pair of heads by its weights, its outputs and its parameters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.plots.alike import pair_scatter
from mha_viz.ui import controls, figures, look, reporting, state
from mha_viz.ui.compare import words
from mha_viz.ui.compare.pair import pair
from mha_viz.ui.scene import Scene

OUTPUT_NAMES = {"cka": "CKA of outputs", "redundancy": "redundancy R of outputs"}
N_ODD = 8  # pairs that are named on each side


def draw(scene: Scene) -> None:
    """The scatter; a click opens the pair."""
    if scene.record.z is None:
        st.info("This family does not show what its heads write, only where they look.")
        return
    if scene.record.n_layers * scene.record.n_heads < 2:
        st.info("There is one head only: it has nothing to be compared with.")
        return
    outputs = st.segmented_control(
        "Likeness of outputs", list(OUTPUT_NAMES), default="cka", key="ask_outputs",
        format_func=OUTPUT_NAMES.__getitem__,
    ) or "cka"  # fmt: skip
    i, j = np.triu_indices(scene.record.n_layers * scene.record.n_heads, 1)
    looks = 1 - reporting.likeness(scene, "hellinger")[i, j]
    does = reporting.likeness(scene, outputs)[i, j]
    space = state.current().space
    matrix = reporting.parameter_likeness(state.current(), space)
    weights = None if matrix is None else np.abs(matrix[i, j])
    pairs, names = np.stack([i, j], axis=1), words.names(scene)
    figure = pair_scatter(
        looks, does, pairs, names, x_title="look alike: 1 − Hellinger distance of weights",
        y_title=f"do alike: {OUTPUT_NAMES[outputs]}", colour=weights,
        colour_title="" if weights is None else f"|cos| of {space}", n_heads=scene.record.n_heads,
        selected=_selected(scene), dark=look.dark(),
    )  # fmt: skip
    table = pd.DataFrame(
        {"Head": [names[k] for k in i], "Other": [names[k] for k in j], "Look alike": looks,
         "Do alike": does, **({} if weights is None else {f"|cos| {space}": weights})}
    )  # fmt: skip
    figures.show(
        figure, key="alike", name="pairs", on_click=lambda found: words.choose_pair(found, scene),
        table=table, caption=words.settings(scene, OUTPUT_NAMES[outputs]),
        how_to_read="Each dot is a pair of heads. Bottom right: they look at the same tokens and "
        "write different things. Top left: they write the same and look elsewhere. Click one to "
        "see both. One text is a small sample of what two heads may share.",
    )  # fmt: skip
    state.bound("space", st.segmented_control, "Parameters", list(state.SPACES), wrap=True)
    _odd(table)
    controls.pair_pickers(scene.record.n_layers, scene.record.n_heads)
    view = state.current()
    pair(scene, (view.layer, view.head), (view.layer_b, view.head_b))


def _selected(scene: Scene) -> tuple[int, int] | None:
    """The chosen pair, as the figure numbers it; None for a head and itself."""
    view, heads = state.current(), scene.record.n_heads
    i, j = view.layer * heads + view.head, view.layer_b * heads + view.head_b
    return None if i == j else (min(i, j), max(i, j))


def _odd(table: pd.DataFrame) -> None:
    """The pairs that stand out most, on either side."""
    gap = table["Look alike"] - table["Do alike"]
    known = table[gap.notna()]
    sides = (
        ("Look alike, do different things", known.loc[gap.dropna().nlargest(N_ODD).index]),
        ("Do alike, look at different tokens", known.loc[gap.dropna().nsmallest(N_ODD).index]),
    )
    for column, (title, rows) in zip(st.columns(2), sides, strict=True):
        with column:
            st.markdown(f"**{title}**")
            st.dataframe(rows, hide_index=True, width="stretch")
