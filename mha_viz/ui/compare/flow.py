"""Attention rollout: how much of each input token reaches another, if attention simply mixes."""

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS, attention_flow
from mha_viz.core.metrics.flow import check_flow_size, last_rollout
from mha_viz.core.record.record import AttentionRecord
from mha_viz.errors import ArgumentError
from mha_viz.plots.bars import token_bars
from mha_viz.plots.heatmap import head_heatmap
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.compare.pair import colour_scale
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, token_window
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain

N_SOURCES = 4  # tokens that are named above the figures


def draw(scene: Scene) -> None:
    """Draw rollout up to the chosen layer, and the flow to one token beside it."""
    record = scene.record
    if record.is_cross:
        st.info("Cross attention leads from one text to another; choose another part.")
        return
    layers, view = choosing.numbered("L", record.n_layers), state.of(Compare)
    places = words.places(record.labels)
    # Only what somebody chooses is written: to look here must not change what Explore opens with.
    upto = view.upto if view.upto in layers else record.n_layers - 1
    query = view.query if view.query in places else len(places) - 1
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("upto", "Up to layer", layers, width=120, displayed=upto)
        choosing.menu("query", "Into which token", places, width=260, displayed=query)
        colour_scale(scene)

    def make() -> np.ndarray:
        return last_rollout(map(record.patterns.layer, range(upto + 1))).numpy()

    size = 4 * len(record.labels) ** 2
    rollout = reporting.cached(scene, "rollout", upto, make=make, size=size)
    st.markdown(_most(record, rollout[query], query, upto))
    flow = partial(_flow, scene, rollout, upto, query)
    look.beside(2, partial(_rollout, scene, rollout, upto), flow)


def _most(record: AttentionRecord, row: np.ndarray, query: int, upto: int) -> str:
    """Name the tokens that reach the chosen one most."""
    order = np.argsort(-row, kind="stable")[:N_SOURCES]
    sources = ", ".join(f"“{record.labels[i]}” ({row[i]:.0%})" for i in order if row[i] > 0)
    into = f"“{record.labels[query]}” at layer {upto}"
    return plain(f"Into {into}, if attention simply mixes, most comes from {sources}.")


def _rollout(scene: Scene, rollout: np.ndarray, upto: int) -> None:
    record = scene.record
    shown = token_window.Shown.of(record.labels, record.key_labels)
    shares = shown.cut(rollout)
    figures.show(
        head_heatmap(
            shares,
            shown.labels,
            scale=state.of(Compare).scale,
            dark=look.dark(),
            title=f"Rollout from the input to layer {upto}",
            **look.square(380, 440),
            visible=None,  # a share of 0 is what reaches a token from its future
        ),
        caption=words.settings(scene, f"up to L{upto}"),
        table=words.by_tokens(shares, *shown.names, corner="token"),
        **TEXTS.figure("figures.rollout", meaning=METRICS["attention_rollout"].meaning),
    )


def _flow(scene: Scene, rollout: np.ndarray, upto: int, query: int) -> None:
    record = scene.record
    lines = {"rollout": rollout[query]}
    try:
        check_flow_size(upto + 1, len(record.labels))
        found = attention_flow(record.pattern[: upto + 1], query).numpy()
        lines["flow, as shares"] = found / found.sum() if found.sum() > 0 else found
    except ArgumentError as error:
        st.info(f"Attention flow is left out: {error}")
    figures.show(
        token_bars(lines, record.labels, "share", dark=look.dark()),
        table=pd.DataFrame({"Token": words.numbered(record.labels), **lines}),
        caption=words.settings(scene, f"into {words.places(record.labels)[query]} at L{upto}"),
        **TEXTS.figure("figures.flow", meaning=METRICS["attention_flow"].meaning),
    )
