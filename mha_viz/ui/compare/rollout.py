"""Attention rollout: what attention mixes of the input up to a layer, and the flow to one token."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.amounts import format_share
from mha_viz.core.layer_numbers import number_at
from mha_viz.core.metrics import METRICS, attention_flow
from mha_viz.core.metrics.flow import check_flow_size, last_rollout
from mha_viz.errors import ArgumentError
from mha_viz.plots.bars import token_bars
from mha_viz.plots.heatmap import head_heatmap
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import views
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, token_window
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

N_SOURCES = 4  # tokens that are named above the figures


def draw(scene: Scene, view: Compare) -> None:
    """Draw rollout up to the chosen layer, and the flow to one token beside it."""
    record = scene.record
    if record.is_cross:
        st.info("Cross attention leads from one text to another; choose another part.")
        return
    layers = choosing.layers(record.n_layers)
    positions = words.position_names(record.labels)
    # Only what somebody chooses is written: to look here must not change what Heads opens with.
    upto = view.upto if view.upto in layers else record.n_layers - 1
    query = view.query if view.query in positions else len(positions) - 1
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("upto", "Up to layer", layers, width=120, displayed=upto)
        choosing.menu("query", "Into which token", positions, width=260, displayed=query)
        choosing.menu("scale", "Colour scale", views.SCALES, width=150)
        token_window.slider(len(positions))

    def make() -> np.ndarray:
        return last_rollout(map(record.patterns.layer, range(upto + 1))).numpy()

    size = 4 * len(record.labels) ** 2
    rollout = reporting.cached(scene, "rollout", upto, make=make, size=size)
    row, labels = rollout[query], record.labels
    most = [i for i in np.argsort(-row, kind="stable")[:N_SOURCES] if row[i] > 0]
    sources = ", ".join(f"“{labels[i]}” ({format_share(row[i])})" for i in most)
    layer = number_at(words.layer_numbers(), upto)
    values = {"token": labels[query], "layer": layer, "sources": sources}
    st.markdown(words.plain(TEXTS("rollout.sources", **values)))
    flow = partial(_flow, scene, rollout, upto, query)
    look.beside(2, partial(_rollout, scene, view, rollout, upto), flow)


def _rollout(scene: Scene, view: Compare, rollout: np.ndarray, upto: int) -> None:
    shown = token_window.Shown.of(scene.record.labels, scene.record.key_labels, view)
    layer = number_at(words.layer_numbers(), upto)
    shares, title = shown.cut(rollout), f"Rollout from the input to layer {layer}"
    options: dict[str, Any] = {"scale": view.scale, "dark": look.dark()}
    options |= look.square(380, 440)
    figures.show(
        # A share of 0 is what reaches a token from its future.
        head_heatmap(shares, shown.labels, title=title, visible=None, **options),
        caption=words.settings(scene, f"up to {words.layer_name(upto)}"),
        table=words.by_tokens(shares, *shown.names, corner="token"),
        **TEXTS.figure("figures.rollout"),
    )


def _flow(scene: Scene, rollout: np.ndarray, upto: int, query: int) -> None:
    record = scene.record
    lines = {"rollout": rollout[query]}
    try:
        check_flow_size(upto + 1, len(record.labels))
        flow = attention_flow(record.pattern[: upto + 1], query).numpy()
        lines["flow, as shares"] = flow / flow.sum() if flow.sum() > 0 else flow
    except ArgumentError as error:
        st.info(f"Attention flow is left out: {error}")
    drawn = token_bars(lines, record.labels, "share", dark=look.dark())
    table = pd.DataFrame({"Token": words.numbered(record.labels), **lines})
    into = f"into {words.position_names(record.labels)[query]} at {words.layer_name(upto)}"
    caption = words.settings(scene, into)
    texts = TEXTS.figure("figures.flow", meaning=METRICS["attention_flow"].meaning)
    figures.show(drawn, table=table, caption=caption, **texts)
