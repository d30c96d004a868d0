"""One head over all texts: its labels and where its weight goes."""

from __future__ import annotations

import streamlit as st

from mha_viz.corpus.study import Study
from mha_viz.plots.bars import token_bars
from mha_viz.ui.corpus.overview import label_table, of_head, settings
from mha_viz.ui.session import state
from mha_viz.ui.widgets import choosing, figures, look
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

_NEAR = [str(offset) for offset in range(-10, 11)]  # drawn: few texts are long enough for more
_PROFILES = {
    "offset": (
        "Weight by offset",
        "How far the key is from the query, in tokens; below 0 is before it. The table goes on.",
    ),
    "kind": ("Weight by kind of key", "A key is of the first kind that fits, from the left."),
}


def draw(study: Study) -> None:
    """The chosen head."""
    view = state.current()
    st.header(f"One head: {head_name(*view.chosen)}", anchor=False)
    with st.container(horizontal=True):
        choosing.menu("layer", "Layer", choosing.numbered("L", study.n_layers), width=100)
        choosing.menu("head", "Head", choosing.numbered("H", study.n_heads), width=100)
    _labels(study)
    for column, axis in zip(st.columns([3, 2], gap="medium"), _PROFILES, strict=True):
        with column:
            _profile(study, axis)


def _labels(study: Study) -> None:
    found = of_head(study.labels)
    if found.empty:
        st.markdown("It earns no label on these texts.")
    else:
        st.table(label_table(found).set_index("Label").map(format_number))


def _profile(study: Study, axis: str) -> None:
    rows = of_head(study.profile_by(axis))
    title, how_to_read = _PROFILES[axis]
    name = head_name(*state.current().chosen)
    drawn = rows[rows[axis].isin(_NEAR)] if axis == "offset" else rows
    weights = {name: drawn["weight"].to_numpy()}
    figure = token_bars(weights, list(drawn[axis]), "weight", dark=look.dark())
    figures.show(
        figure,
        key=f"corpus-{axis}",
        name=f"{title} of {name}",
        table=rows[[axis, "weight"]].reset_index(drop=True),
        caption=settings(study, name, title),
        how_to_read=f"{how_to_read} Each bar is a mean over all queries that have such a key.",
    )
