"""Across layers: one metric, every head of every layer, and which kinds of heads sit where."""

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.plots.head_values import by_layer
from mha_viz.reports.report import Report
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.compare.pair import colour_scale, one_head
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

N_NAMED = 3  # heads with most of a metric, and with least


def draw(scene: Scene) -> None:
    """Draw a metric by layer, the heads that have most and least of it, and the chosen one."""
    report = reporting.report(scene, state.of(Compare))
    chosen = state.of(Compare).metric
    if chosen not in report.scores:
        now = state.change(metric=next(iter(report.scores))).metric
        st.info(
            f"{METRICS[chosen].title} has no meaning for this model and text. Showing "
            f"{METRICS[now].title}."
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        titles = {key: METRICS[key].title for key in report.scores}
        choosing.menu("metric", "Metric", titles, width=280)
        colour_scale(scene)
        reporting.offer_random(state.of(Compare))
    view = state.of(Compare)
    metric, values = METRICS[view.metric], report.scores[view.metric].numpy()
    st.markdown(f"{metric.meaning} {_extremes(values)}")
    _ends(values)
    look.beside([3, 2], lambda: _by_layer(scene, report, values), lambda: one_head(scene, report))
    _kinds(scene, report)


def _ends(values: np.ndarray) -> None:
    numbers = values.ravel()
    order = np.argsort(numbers, kind="stable")[: int(np.isfinite(numbers).sum())]
    if len(order) < 2:
        return
    few = min(N_NAMED, len(order) // 2)
    ends = (("Most", order[: -few - 1 : -1]), ("Least", order[:few]))
    for column, (title, heads) in zip(st.columns(2), ends, strict=True):
        places = [divmod(int(i), values.shape[1]) for i in heads]
        offered = {
            place: f"{head_name(*place)}: {format_number(values[place])}" for place in places
        }
        with column:
            choosing.chips(
                f"ends_{title.lower()}",
                title,
                offered,
                chosen=state.of(Compare).chosen,
                take=words.choose,
            )


def _by_layer(scene: Scene, report: Report, values: np.ndarray) -> None:
    view = state.of(Compare)
    metric = METRICS[view.metric]
    figure = by_layer(
        values,
        metric.title,
        words.unit_of(view.metric),
        dark=look.dark(),
        selected=view.chosen,
        baselines=words.baseline_values(report.baselines.get(view.metric)),
    )
    figures.show(
        figure,
        key="by_layer",
        name=f"{metric.title} by layer",
        on_click=words.choose,
        table=words.head_values(scene, {metric.title: values}),
        caption=words.settings(scene, metric.title, *_measured_on(view.metric)),
        how_to_read=f"Each dot is a head, the line the mean of its layer; {metric.direction}. "
        + _dashed(view.metric),
    )


def _measured_on(metric: str) -> tuple[str, ...]:
    """Return what a figure's settings add where another text was measured."""
    other = "measured on random text that is repeated once, not on this one"
    return (other,) * (metric == "induction")


def _dashed(metric: str) -> str:
    induction = metric == "induction"
    texts = "the same random texts" if induction else "this text"
    return (
        f"Dashed lines are what heads that have learned nothing give on {texts}: only what stands "
        "clear of them says something about this model. "
        + (words.INDUCTION if induction else "Another text gives other numbers.")
    )


def _extremes(values: np.ndarray) -> str:
    """Name the layers that have most and least of it."""
    if len(values) < 2 or not np.isfinite(values).any():
        return ""
    means = np.array(
        [row[np.isfinite(row)].mean() if np.isfinite(row).any() else np.nan for row in values]
    )
    low, high = int(np.nanargmin(means)), int(np.nanargmax(means))
    if means[low] == means[high]:
        return f"The same on average in every layer ({format_number(means[low])})."
    return (
        f"Lowest on average in layer {low} ({format_number(means[low])}), highest in layer {high} "
        f"({format_number(means[high])})."
    )


def _kinds(scene: Scene, report: Report) -> None:
    layers = scene.record.n_layers
    counts = {}
    for key, label in LABELS.items():
        if heads := reporting.of_kind(report, key):
            counts[label.title] = [sum(layer == i for layer, _ in heads) for i in range(layers)]
    st.header("Which kinds of heads sit where", anchor=False)
    if not counts:
        st.markdown("No head of this model earns a label on this text.")
        return
    table = pd.DataFrame(counts, index=[f"L{i}" for i in range(layers)]).T
    st.dataframe(table.rename_axis("Label"), width="stretch")
    induction = LABELS["induction"].title in counts
    st.caption(
        TEXTS("layers.kinds", n_heads=scene.record.n_heads) + f" {words.INDUCTION}" * induction
    )
    exports.table_file(
        table.reset_index(names="Label"),
        key="kinds",
        name="Kinds of heads by layer",
        caption=words.settings(
            scene,
            "heads of each layer with that label",
            *_measured_on("induction" if induction else ""),
        ),
    )
