"""One head over all texts: its labels, where its weight goes, and the texts that show it best."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.study import Study
from mha_viz.plots.bars import token_bars
from mha_viz.ui.corpus.overview import label_table, settings
from mha_viz.ui.corpus.sentences import in_explore, marked
from mha_viz.ui.session import state
from mha_viz.ui.widgets import choosing, figures, look
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

_EXAMPLES = 5
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
    _examples(study)


def _labels(study: Study) -> None:
    found = _of_head(study.labels)
    if found.empty:
        st.markdown("It earns no label on these texts.")
    else:
        st.table(label_table(found).set_index("Label").map(format_number))


def _of_head(rows: pd.DataFrame) -> pd.DataFrame:
    layer, head = state.current().chosen
    return rows[(rows["layer"] == layer) & (rows["head"] == head)]


def _profile(study: Study, axis: str) -> None:
    rows = _of_head(study.profile_by(axis))
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


def _examples(study: Study) -> None:
    """The texts that score highest by the chosen metric, or that show the chosen label best."""
    view = state.current()
    known = set(study.heads["metric"])
    by_label = bool(view.kind) and LABELS[view.kind].metric in known
    by = view.kind if by_label else view.metric
    title = (LABELS if by_label else METRICS)[by].title
    st.subheader(f"Strongest examples by {title}", anchor=False)
    found = study.examples(view.layer, view.head, by=by, k=_EXAMPLES)
    if found.empty:
        st.markdown("No text defines it for this head.")
    for row in found.to_dict("records"):
        link = in_explore(row["text"], *view.chosen)
        st.markdown(f"**{format_number(row['value'])}** – {marked(row['text'])} {link}")
