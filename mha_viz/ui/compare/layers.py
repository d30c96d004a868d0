"""Across layers: metrics of every head, kinds of heads, and what attention mixes of the input."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.layer_numbers import number_at
from mha_viz.core.metrics import LABELS, METRICS, attention_flow
from mha_viz.core.metrics.flow import check_flow_size, last_rollout
from mha_viz.errors import ArgumentError
from mha_viz.plots.bars import token_bars
from mha_viz.plots.difference import head_changes
from mha_viz.plots.head_map import metric_maps
from mha_viz.plots.head_values import by_layer
from mha_viz.plots.heatmap import head_heatmap
from mha_viz.reports.report import Report
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.compare.pair import colour_scale, one_head
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, token_window
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import words

_SAME = 1e-5  # values that differ by less are the same but for rounding


def draw(scene: Scene) -> None:
    """Draw maps of one metric and of all, the chosen head, and what heads of each layer do."""
    report = reporting.report(scene, state.of(Compare))
    chosen = state.of(Compare).metric
    if chosen not in report.scores:
        now = state.change(metric=next(iter(report.scores))).metric
        st.info(TEXTS("layers.instead", chosen=METRICS[chosen].title, now=METRICS[now].title))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        titles = {key: METRICS[key].title for key in report.scores}
        choosing.menu("metric", "Metric", titles, width=280)
        values = report.scores[state.of(Compare).metric].numpy()
        for name, count in zip(("Layer", "Head"), values.shape, strict=True):
            choosing.menu(name.lower(), name, choosing.numbered(name[0], count), width=100)
        colour_scale(scene)
        reporting.offer_random(state.of(Compare))
    st.markdown(f"{METRICS[state.of(Compare).metric].meaning} {_extremes(values)}")
    head, maps = partial(one_head, scene, report), partial(_maps, scene, report)
    look.beside([4, 4, 5], partial(_map, scene, values), head, maps)
    look.beside([3, 2], partial(_by_layer, scene, report, values), partial(_kinds, scene, report))


def _map(scene: Scene, values: np.ndarray) -> None:
    view = state.of(Compare)
    metric, known = METRICS[view.metric], values[np.isfinite(values)]
    limits = (known.min(), known.max()) if known.size and np.ptp(known) > _SAME else None
    about = metric.title, metric.shown_unit
    looks: dict[str, Any] = {"layer_numbers": words.layer_numbers(), "dark": look.dark()}
    drawn = head_changes(values, *about, limits=limits, selected=view.chosen, **looks)
    table = words.head_values(scene, {metric.title: values})
    caption = words.settings(scene, metric.title, *_measured_on(view.metric))
    texts = TEXTS.figure("figures.metric_map", title=metric.title, direction=metric.direction)
    figures.show(drawn, on_click=words.choose, table=table, caption=caption, **texts)


def _maps(scene: Scene, report: Report) -> None:
    """Draw a small map of each metric; a click in one chooses it, and the head."""
    view = state.of(Compare)
    choosing.segments("maps", "All metrics", views.TITLES["map_orders"])
    keys = report.furthest_from_baselines() if view.maps == "baseline" else list(report.scores)
    maps = {METRICS[key].title: report.scores[key].numpy() for key in keys}

    def choose(found: list[int]) -> None:
        state.change(metric=keys[found[0]])
        words.choose(found[1:])

    units = {METRICS[key].title: METRICS[key].shown_unit for key in keys}
    chosen = METRICS[view.metric].title
    drawn = metric_maps(maps, units, chosen=chosen, selected=view.chosen, dark=look.dark())
    table = words.head_values(scene, maps)
    caption = words.settings(scene, *_measured_on("induction" * ("induction" in keys)))
    texts = TEXTS.figure("figures.metric_maps")
    figures.show(drawn, on_click=choose, table=table, caption=caption, **texts)


def _by_layer(scene: Scene, report: Report, values: np.ndarray) -> None:
    view = state.of(Compare)
    metric, induction = METRICS[view.metric], view.metric == "induction"
    baselines = words.baseline_values(report.baselines.get(view.metric))
    looks: dict[str, Any] = {"selected": view.chosen, "dark": look.dark()}
    looks["layer_numbers"] = words.layer_numbers()
    texts = "the same random texts" if induction else "this text"
    about = words.INDUCTION if induction else "Another text gives other numbers."
    figures.show(
        by_layer(values, metric.title, metric.shown_unit, baselines=baselines, **looks),
        on_click=words.choose,
        table=words.head_values(scene, {metric.title: values}),
        caption=words.settings(scene, metric.title, *_measured_on(view.metric)),
        **TEXTS.figure("figures.by_layer", metric=metric, texts=texts, about=about),
    )


def _measured_on(metric: str) -> tuple[str, ...]:
    """Return what a figure's settings add where another text was measured."""
    other = "measured on random text that is repeated once, not on this one"
    return (other,) * (metric == "induction")


def _extremes(values: np.ndarray) -> str:
    """Name the layers that have most and least of it."""
    if len(values) < 2 or not np.isfinite(values).any():
        return ""
    means = pd.DataFrame(np.where(np.isfinite(values), values, np.nan)).mean(axis=1)
    least, most = means.min(), means.max()
    if least == most:
        return f"The same on average in every layer ({words.format_number(least)})."
    ends = np.nanargmin(means.to_numpy()), np.nanargmax(means.to_numpy())
    low, high = (number_at(words.layer_numbers(), layer) for layer in ends)
    return TEXTS("layers.extremes", low=low, least=least, high=high, most=most)


def _kinds(scene: Scene, report: Report) -> None:
    st.header("Which kinds of heads sit where", anchor=False)
    kinds = {key: found for key in LABELS if (found := reporting.of_kind(report, key))}
    if not kinds:
        st.markdown("No head of this model earns a label on this text.")
        return
    titles = pd.Index([LABELS[key].title for key in kinds], name="Label")
    heads = {
        words.layer_name(i): [[one for one in kinds[key] if one[0] == i] for key in kinds]
        for i in range(scene.record.n_layers)
    }
    table = pd.DataFrame(heads, index=titles).map(len)

    def clicked() -> list[tuple[int, int]]:
        """Return the heads of the clicked cell; the browser may name one that is not there."""
        cells = st.session_state.get("kinds-cells", {}).get("selection", {}).get("cells", [])
        shown = [cell for cell in cells if cell[0] in range(len(table)) and cell[1] in heads]
        return [one for row, layer in shown for one in heads[layer][row]]

    @guarded
    def take() -> None:
        words.choose(next(iter(clicked()), None))

    st.dataframe(table, key="kinds-cells", on_select=take, selection_mode="single-cell")
    if names := {head: words.head_name(*head) for head in clicked()}:
        chosen = state.of(Compare).chosen
        choosing.chips("labelled", "Heads of this cell", names, chosen=chosen, take=words.choose)
    induction = "induction" in kinds
    told = f" {words.INDUCTION}" * induction
    st.caption(TEXTS("layers.kinds", n_heads=scene.record.n_heads) + told)
    of_what = "heads of each layer with that label"
    source = words.settings(scene, of_what, *_measured_on("induction" * induction))
    name = "Kinds of heads by layer"
    exports.table_file(table.reset_index(), key="kinds", name=name, caption=source)


N_SOURCES = 4  # tokens that are named above the figures


def draw_flow(scene: Scene) -> None:
    """Draw rollout up to the chosen layer, and the flow to one token beside it."""
    record = scene.record
    if record.is_cross:
        st.info("Cross attention leads from one text to another; choose another part.")
        return
    layers, view = choosing.layers(record.n_layers), state.of(Compare)
    places = words.places(record.labels)
    # Only what somebody chooses is written: to look here must not change what Heads opens with.
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
    row, labels = rollout[query], record.labels
    most = [i for i in np.argsort(-row, kind="stable")[:N_SOURCES] if row[i] > 0]
    sources = ", ".join(f"“{labels[i]}” ({row[i]:.0%})" for i in most)
    layer = number_at(words.layer_numbers(), upto)
    told = {"token": labels[query], "layer": layer, "sources": sources}
    st.markdown(words.plain(TEXTS("layers.sources", **told)))
    flow = partial(_flow, scene, rollout, upto, query)
    look.beside(2, partial(_rollout, scene, rollout, upto), flow)


def _rollout(scene: Scene, rollout: np.ndarray, upto: int) -> None:
    shown = token_window.Shown.of(scene.record.labels, scene.record.key_labels)
    layer = number_at(words.layer_numbers(), upto)
    shares, title = shown.cut(rollout), f"Rollout from the input to layer {layer}"
    looks: dict[str, Any] = {"scale": state.of(Compare).scale, "dark": look.dark()}
    looks |= look.square(380, 440)
    figures.show(
        # A share of 0 is what reaches a token from its future.
        head_heatmap(shares, shown.labels, title=title, visible=None, **looks),
        caption=words.settings(scene, f"up to {words.layer_name(upto)}"),
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
    drawn = token_bars(lines, record.labels, "share", dark=look.dark())
    table = pd.DataFrame({"Token": words.numbered(record.labels), **lines})
    into = f"into {words.places(record.labels)[query]} at {words.layer_name(upto)}"
    caption = words.settings(scene, into)
    texts = TEXTS.figure("figures.flow", meaning=METRICS["attention_flow"].meaning)
    figures.show(drawn, table=table, caption=caption, **texts)
