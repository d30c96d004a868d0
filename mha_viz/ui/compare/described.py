"""Two heads in words, and each metric of both among all heads."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import streamlit as st

from mha_viz.core.layer_numbers import numbered
from mha_viz.core.metrics import METRICS
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.core.record.record import AttentionRecord
from mha_viz.plots.metric_strips import MetricStrip, metric_strips
from mha_viz.reports.difference import Difference, describe_difference
from mha_viz.reports.report import TWIN_MEASURES, Report
from mha_viz.reports.report import report as make_report
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run import scene as runs
from mha_viz.ui.state import state
from mha_viz.ui.state.link_values import UNTRAINED
from mha_viz.ui.state.views import UNTRAINED_COPY, Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

MOST_MARKED = 3  # pairs of tokens, in both pictures


class Other(NamedTuple):
    """A second run, and the records of both: of words, where two models cut texts differently."""

    scene: runs.Scene
    records: tuple[AttentionRecord, AttentionRecord]


def second_run(name: str, text: str = "") -> runs.Scene:
    """Run a text through another model; "" for the view's own model, and for its own text."""
    view, text = state.of(Compare), text if text.strip() else ""
    name = view.model + UNTRAINED if name == UNTRAINED_COPY else name or view.model
    model = memory.model(name, view.device, view.dtype)
    part = view.part if view.part in model.parts else model.parts[0]
    # A pair belongs to its text; a decoder's text stays what it is beside another encoder's.
    pair = view.pair if model.accepts_pair and (not text or len(model.parts) > 1) else ""
    return runs.other(replace(view, model=name, text=text or view.text, pair=pair, part=part))


def difference(
    scene: runs.Scene,
    other: Other | None = None,
    places: tuple[tuple[int, int], tuple[int, int]] | None = None,
) -> Difference:
    """Return what is said of two heads, by default of the chosen ones (and of `other`)."""
    view = state.of(Compare)
    places = places or (view.chosen, view.second)

    def make() -> Difference:
        report, *theirs = _reports(scene, other)
        if other is None:
            likeness = {
                measure: reporting.likeness(scene, measure)
                for measure in TWIN_MEASURES.values()
                if PAIR_MEASURES[measure] == "pattern" or scene.record.z is not None
            }
            heads = numbered(places, scene.record.layer_numbers)
            return describe_difference(scene.record, *heads, report=report, likeness=likeness)
        one, two = other.records
        (a,), (b,) = (
            numbered([place], record.layer_numbers)
            for place, record in zip(places, other.records, strict=True)
        )
        return describe_difference(one, a, b, other=two, report=report, other_report=theirs[0])

    key = None if other is None else (other.scene.key, other.records[0].merged)
    return reporting.cached(scene, "described", places, key, make=make)


def _reports(scene: runs.Scene, other: Other | None) -> list[Report]:
    """Return the report of all heads of each run."""
    view = state.of(Compare)
    if other is None:
        return [reporting.report(scene, view)]
    if other.records[0].merged:
        return [
            reporting.cached(of, "of words", make=partial(make_report, record))
            for of, record in zip((scene, other.scene), other.records, strict=True)
        ]
    views = view, replace(view, model=other.scene.model)
    return [reporting.report(*of) for of in zip((scene, other.scene), views, strict=True)]


def sentences(found: Difference, framed: bool = False) -> None:
    """Write what is said, and which pairs of tokens differ most; whether pictures frame these."""
    told = [one.text for one in found.sentences]
    pairs = found.pairs.head(MOST_MARKED)
    if len(pairs):
        weights = pairs[["a", "b"]].map(words.format_number)
        clauses = [
            f"“{row.query_token}” to “{row.key_token}” ({a} and {b})"
            for row, a, b in zip(pairs.itertuples(), weights["a"], weights["b"], strict=True)
        ]
        where = ": framed below" if framed else ""
        told.append(f"Their weights differ most from {', from '.join(clauses)}{where}.")
    st.markdown("\n".join(f"- {words.plain(text)}" for text in told))


def marked(found: Difference) -> tuple[tuple[int, int], ...]:
    """Return the pairs of tokens, (query, key), that are framed in both pictures."""
    pairs = found.pairs.head(MOST_MARKED)
    return tuple(zip(pairs["query"].tolist(), pairs["key"].tolist(), strict=True))


def metrics(
    scene: runs.Scene, found: Difference, names: tuple[str, str], other: Other | None = None
) -> None:
    """Draw every metric of both heads among all heads, the most unusual difference first."""
    if names[0] == names[1]:  # a head beside itself; columns must differ
        names = (f"{names[0]} (first)", f"{names[1]} (second)")
    scores = [report.scores for report in _reports(scene, other)]
    strips = {
        METRICS[str(key)].title: MetricStrip(
            row["a"],
            row["b"],
            np.concatenate([np.ravel(each[str(key)]) for each in scores if str(key) in each]),
            _note(row["spreads"], row["p"], bool(row["beyond_noise"])),
        )
        for key, row in found.metrics.iterrows()
    }
    table = found.metrics[["title", "a", "b", "difference", "spreads", "unusual", "noise", "p"]]
    told = ["Metric", *names, "Difference", "Spreads", "More than so many pairs", "Noise", "p"]
    figures.show(
        metric_strips(strips, names=names, dark=look.dark()),
        table=table.set_axis(told, axis=1).reset_index(drop=True),
        caption=words.settings(scene, f"{names[0]} and {names[1]}"),
        **TEXTS.figure("figures.changes"),
    )


def _note(spreads: float, p: float, beyond: bool) -> str:
    """Write how large a difference is, and whether it is more than noise."""
    if not np.isfinite(spreads):
        return ""
    told = "" if np.isnan(p) else (", beyond noise" if beyond else ", within noise")
    return f"{words.format_number(abs(spreads), digits=2)} spreads{told}"
