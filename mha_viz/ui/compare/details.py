"""Two heads of a board in every detail: in words, cell by cell, and metric by metric."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.compare.alignment import align, aligned, equal_places, pattern_change
from mha_viz.core.metrics import METRICS
from mha_viz.core.names import PAIR_MEASURES, PRODUCTS
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.plots.difference import difference_heatmap, head_changes
from mha_viz.plots.metric_strips import MetricStrip, metric_strips
from mha_viz.reports.difference import Difference, describe_pair
from mha_viz.reports.head_pair import HeadPair
from mha_viz.reports.report import TWIN_MEASURES, Report
from mha_viz.reports.report import report as make_report
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.compare.panels import Head, Panel
from mha_viz.ui.run import reporting
from mha_viz.ui.state import views
from mha_viz.ui.state.link_values import UNTRAINED
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, token_window
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

MOST_MARKED = 3  # pairs of tokens, in both pictures
N_CHANGED = 5  # heads that are named above the figures
OWN_BASIS = " (in each head’s own basis)"  # a number that changes when a head is turned inside
_BY_WEIGHTS = {"subspace_overlap": "overlap", "cosine": "cos"}
Pairs = list[tuple[int | None, int | None]]


class Pair(NamedTuple):
    """Two panels on common axes; of two models, words are what both have."""

    a: Panel
    b: Panel
    records: tuple[AttentionRecord, AttentionRecord]
    aligned: Pairs  # that align their tokens
    common: list[tuple[int, int]]  # those with the same token

    @property
    def of_one_run(self) -> bool:
        """True where both heads are of one run."""
        return self.a.run == self.b.run

    @property
    def shares_tokens(self) -> bool:
        """True where both texts have a token, other than those that every text has."""
        a, b = (record.tokens for record in self.records)
        return any(not (a[i].is_special and b[j].is_special) for i, j in self.common)

    @property
    def names(self) -> tuple[str, str]:
        """The names of both heads."""
        return self.a.name, self.b.name

    @property
    def sides(self) -> tuple[tuple[AttentionRecord, Head], tuple[AttentionRecord, Head]]:
        """Both records and the places of the heads."""
        return (self.records[0], self.a.head), (self.records[1], self.b.head)


def compute(a: Panel, b: Panel) -> Pair:
    """Align the runs of two panels."""
    make, size = partial(_align, a, b), 2 * a.scene.record.held_bytes
    return Pair(a, b, *reporting.cached(a.scene, "sides", b.scene.key, make=make, size=size))


def _align(
    first: Panel, second: Panel
) -> tuple[tuple[AttentionRecord, AttentionRecord], Pairs, list[tuple[int, int]]]:
    a, b = first.scene.record, second.scene.record
    vocabularies = {panel.pin.model.removesuffix(UNTRAINED) for panel in (first, second)}
    apart = a.labels != b.labels and len(vocabularies) > 1
    if apart:
        a, b = a.merge_words(), b.merge_words()
    positions = align(a.labels, b.labels, ignore_case=apart)
    return (a, b), positions, equal_places(a.labels, b.labels, positions, ignore_case=apart)


def describe(pair: Pair) -> Difference:
    """Say how both heads differ."""

    def make() -> Difference:
        reports = _reports(pair)
        likeness = None
        if pair.of_one_run:
            likeness = {
                measure: reporting.likeness(pair.a.scene, measure)
                for measure in TWIN_MEASURES.values()
                if PAIR_MEASURES[measure] == "pattern" or pair.records[0].z is not None
            }
        return describe_pair(HeadPair(pair.sides, reports, pair.names), likeness)

    key = (pair.a.head, pair.b.head, pair.b.scene.key, pair.names)
    return reporting.cached(pair.a.scene, "described", *key, make=make)


def _reports(pair: Pair) -> tuple[Report, Report]:
    """Return the report of all heads of each run, of words where tokens differ."""
    panels = pair.a, pair.b
    if not pair.records[0].merged:
        return panels[0].report(), panels[1].report()
    first, second = (
        reporting.cached(panel.scene, "of words", make=partial(make_report, record))
        for panel, record in zip(panels, pair.records, strict=True)
    )
    return first, second


def moved(pair: Pair) -> float:
    """Return the share of a head's weight that lies elsewhere in the other head; NaN: no rows."""
    if pair.records[0].is_cross or pair.records[1].is_cross:
        return np.nan
    a, b = (record.head(*head)[None, None] for record, head in pair.sides)
    return float(pattern_change(a, b, pair.aligned, pair.common))


def marked(pair: Pair, difference: Difference) -> list[tuple[int, int]]:
    """Return the pairs of tokens (query, key) that differ most, and are framed in both pictures."""
    pairs = difference.pairs.head(MOST_MARKED)
    if pair.records[0].merged:
        return []
    return list(zip(pairs["query"].tolist(), pairs["key"].tolist(), strict=True))


def draw(pair: Pair, choose: Callable[[Any], None]) -> None:
    """Draw the sentences, the difference of the weights and all metrics of both heads.

    `choose` is called with a head that is to be shown in both panels.
    """
    difference = describe(pair)
    _sentences(pair, difference)
    is_cross = any(record.is_cross for record in pair.records)
    if not pair.of_one_run and (is_cross or not pair.shares_tokens):
        st.info(TEXTS("details.cross" if is_cross else "details.no_common"))
        _metrics(pair, difference)
        return
    look.beside(2, partial(_difference, pair), partial(_metrics, pair, difference))
    if pair.of_one_run:
        _measures(pair)
    else:
        _most_changed(pair, choose)


def _sentences(pair: Pair, difference: Difference) -> None:
    lines = [sentence.text for sentence in difference.sentences]
    if len(pairs := difference.pairs.head(MOST_MARKED)):
        weights = pairs[["a", "b"]].map(words.format_number)
        clauses = [
            f"“{row.query_token}” to “{row.key_token}” ({a} and {b})"
            for row, a, b in zip(pairs.itertuples(), weights["a"], weights["b"], strict=True)
        ]
        lines.append(f"Their weights differ most from {', '.join(clauses)}.")
    if not pair.of_one_run:
        lines += [
            f"{p.letter} is {_about(r)}." for p, r in zip(pair[:2], pair.records, strict=True)
        ]
    st.markdown("\n".join(f"- {words.plain(text)}" for text in lines))


def _about(record: AttentionRecord) -> str:
    unit = "words" if record.merged else "tokens"
    return f"{record.model} on “{_short(record.text, 100)}”, {len(record.tokens)} {unit}"


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def settings(pair: Pair, *more: str) -> str:
    """Write the source of a figure of two heads, in one line."""
    b = pair.records[1]
    other = () if pair.of_one_run else (f"A; B: {b.model} · {_short(b.text, 200)}",)
    return words.settings(pair.a.scene, *other, *more)


def _difference(pair: Pair) -> None:
    """Draw the weights of one head minus those of the other, on common axes."""
    (first, second), key_places = pair.names, pair.aligned
    record = pair.records[0]
    if record.is_cross:  # of one run alone: two runs have four texts
        key_places = [(i, i) for i in range(len(record.key_tokens))]
    (weights_a, hidden_a), (weights_b, hidden_b) = (
        _on_common(
            *pair.sides[side], [p[side] for p in pair.aligned], [p[side] for p in key_places]
        )
        for side in (0, 1)
    )
    labels = [_label(pair, i, j) for i, j in pair.aligned]
    key_labels = list(record.key_labels) if record.is_cross else labels
    shown = token_window.Shown.of(labels, key_labels, pair.a.view)
    weights_a, weights_b = shown.cut(weights_a), shown.cut(weights_b)
    masked = shown.cut(hidden_a), shown.cut(hidden_b)
    options: dict[str, Any] = {"names": pair.names, "title": f"{second} minus {first}"}
    options |= {"masked": masked, "side": 440, "dark": look.dark()}
    drawn = difference_heatmap((weights_a, weights_b), shown.labels, **options)
    table = words.by_tokens(weights_b - weights_a, *shown.names, visible=~(masked[0] | masked[1]))
    counts: dict[str, object] = {"common": len(pair.common), "places": len(pair.aligned)}
    name = "figures.difference" if pair.of_one_run else "figures.sides"
    texts = TEXTS.figure(name, first=first, second=second, **counts)
    figures.show(drawn, table=table, caption=settings(pair, options["title"]), **texts)


def _on_common(
    record: AttentionRecord,
    head: Head,
    queries: list[int | None],
    keys: list[int | None],
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Return a head's weights on common axes, and which of them the run's mask hides."""
    hidden = (~visible_keys(record, head[0])).float()
    return aligned(record.head(*head), queries, keys), aligned(hidden, queries, keys) == 1


def _label(pair: Pair, i: int | None, j: int | None) -> str:
    a, b = pair.records
    label_a, label_b = (None if i is None else a.labels[i]), (None if j is None else b.labels[j])
    if label_a is None or label_b is None:
        return label_a or label_b or ""
    return label_a if (i, j) in pair.common else f"{label_a} / {label_b}"


def _metrics(pair: Pair, difference: Difference) -> None:
    """Draw every metric of both heads among all heads, the most unusual difference first."""
    reports = _reports(pair)
    scores = [report.scores for report in (reports[:1] if pair.of_one_run else reports)]
    strips = {
        METRICS[str(key)].title: MetricStrip(
            row["a"],
            row["b"],
            np.concatenate([np.ravel(each[str(key)]) for each in scores if str(key) in each]),
            _note(row["spreads"], row["p"], bool(row["beyond_noise"])),
        )
        for key, row in difference.metrics.iterrows()
    }
    table = difference.metrics[
        ["title", "a", "b", "difference", "spreads", "unusual", "noise", "p"]
    ]
    columns = ["Metric", *pair.names, "Difference", "Spreads", "More than so many pairs", "Noise"]
    figures.show(
        metric_strips(strips, names=pair.names, dark=look.dark()),
        table=table.set_axis([*columns, "p"], axis=1).reset_index(drop=True),
        caption=settings(pair, " and ".join(pair.names)),
        **TEXTS.figure("figures.changes"),
    )


def _note(spreads: float, p: float, beyond: bool) -> str:
    """Write how large a difference is, and whether it is more than noise."""
    if not np.isfinite(spreads):
        return ""
    verdict = "" if np.isnan(p) else (", beyond noise" if beyond else ", within noise")
    return f"{words.format_number(abs(spreads), digits=2)} spreads{verdict}"


def _measures(pair: Pair) -> None:
    record = pair.records[0]
    i, j = (layer * record.n_heads + head for layer, head in (pair.a.head, pair.b.head))
    measured = record.compare(pair.a.head, pair.b.head)
    rows = [
        (METRICS[str(key)].title, words.format_number(value)) for key, value in measured.items()
    ]
    for space in views.SPACES:
        for measure, title in _BY_WEIGHTS.items():
            matrix = reporting.parameter_likeness(pair.a.view, space, measure)
            if matrix is not None:
                basis = OWN_BASIS * (measure == "cosine" and space not in PRODUCTS)
                rows.append((f"{title} of {space}{basis}", words.format_number(matrix[i, j])))
    table = pd.DataFrame(rows, columns=["Measure", "between them"])
    st.table(table.set_index("Measure"))


def _most_changed(pair: Pair, choose: Callable[[Any], None]) -> None:
    """Draw how much each head differs between both runs, and name those that differ most."""
    a, b = pair.records
    if a.shape[:2] != b.shape[:2]:
        st.info(words.plain(TEXTS("details.sizes", a=a, b=b)))
        return
    make = partial(_changes, pair)
    change = reporting.cached(pair.a.scene, "changes", pair.b.scene.key, make=make)
    order = np.argsort(-change, axis=None, kind="stable")[:N_CHANGED]
    most = [divmod(int(i), change.shape[1]) for i in order]
    numbers = a.layer_numbers
    choosing.chips(
        "most_changed_heads",
        "**Which heads changed most** (share of a row’s weight that lies elsewhere)",
        {
            head: f"{words.head_name(*head, numbers=numbers)}: {words.format_number(change[head])}"
            for head in most
        },
        chosen=pair.a.head if pair.a.head == pair.b.head else None,
        take=choose,
    )
    note = TEXTS("details.apart") if a.model != b.model else ""
    options: dict[str, Any] = {"layer_numbers": numbers, "dark": look.dark()}
    drawn = head_changes(change, selected=pair.a.head, **options)
    scene = pair.a.scene
    table = words.head_values(scene, {"Change": change}).sort_values("Change", ascending=False)
    texts = TEXTS.figure("figures.most_changed", note=note)
    figures.show(drawn, on_click=choose, table=table, caption=settings(pair), **texts)


def _changes(pair: Pair) -> NDArray[np.float32]:
    """Return how much each head changed, a layer at a time: not all weights fit the memory."""
    a, b = (record.patterns for record in pair.records)
    layers = ((a.layer(i)[None], b.layer(i)[None]) for i in range(pair.records[0].n_layers))
    changes = [pattern_change(*both, pair.aligned, pair.common).numpy() for both in layers]
    return np.concatenate(changes)
