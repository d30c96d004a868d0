"""The numbers of the chosen head: its labels, and every score among those of all heads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

import numpy as np
import pandas as pd

from mha_viz.core.amounts import true_minus
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.reports.report import Report
from mha_viz.ui.heads import TEXTS
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets.messages import words
from mha_viz.web.payload import finite

if TYPE_CHECKING:
    from mha_viz.corpus.query.study import Study


def head_numbers(
    scene: Scene, report: Report, head: tuple[int, int], corpus: ManyTexts
) -> dict[str, Any]:
    """Return every number of a head, its labels and its place among texts, as JSON can hold them.

    `corpus` chooses the study whose texts they are. Numbers are measured on all tokens, whatever
    the axes show.
    """
    among = percentiles(scene, report, head, corpus)
    layer, index = head
    # The page itself says what was cut.
    notes = [note for note in report.notes if not note.startswith(words.CUT)]
    if report.induction is not None:
        notes.append(words.INDUCTION)
    return {
        "rows": [*_metric_rows(scene, report, head, among), *_induction_rows(report, head)],
        "baselines": list(words.BASELINE_NAMES.values()),
        "labels": [
            {"title": earned.label.title, "meaning": earned.label.meaning, "why": earned.why}
            for earned in report.labels[layer][index]
        ],
        "withheld": [label.title for label in report.withheld[layer][index]],
        "too_short": [label.title for label in report.too_short(layer)],
        "texts": "" if among is None else among.texts,
        "general": None if among is None else among.general,
        "unusual": "" if among is None else _unusual_line(among, report, head),
        "notes": notes,
    }


def _metric_rows(
    scene: Scene, report: Report, head: tuple[int, int], among: Percentiles | None
) -> Iterator[dict[str, Any]]:
    """Yield a row per metric: the head's value among all heads, baselines and texts."""
    for key, values in report.scores.items():
        finite_values, mine = values[values.isfinite()], values[head]
        baseline = words.baseline_values(report.baselines.get(key), head)
        above = int((finite_values > mine).sum())
        yield {
            "key": key,
            "title": METRICS[key].title,
            "unit": METRICS[key].shown_unit,
            "meaning": METRICS[key].meaning,
            "value": _number(mine),
            "mean": _number(finite_values.mean()) if len(finite_values) else None,
            "rank": f"{above + 1} of {len(finite_values)}" if mine.isfinite() else "",
            # Of the metrics of the text the browser has the values of all heads.
            "heads": None if key in scene.facts else finite(values),
            "baselines": {name: _number(value) for name, value in baseline.items()},
            "median": None if among is None else among.median(key),
            "among": "" if among is None else among.in_words(key),
        }


def _induction_rows(report: Report, head: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the interval of induction, which is measured on several random texts."""
    if (measured := report.induction) is not None:
        ends = (words.format_number(bound[head]) for bound in (measured.low, measured.high))
        meaning = TEXTS("card.induction", found=measured)
        text = " to ".join(ends)
        yield {"title": "Induction, 95 % interval", "text": text, "meaning": meaning}


def _number(value: SupportsFloat) -> float | None:
    return finite(np.array([float(value)]))[0]


_UNUSUAL = 0.95  # share of the texts beyond which a number stands
_NAMED = 4  # numbers that are named


class Percentiles(NamedTuple):
    """Percentiles of one head's numbers by metric, among which texts, and what it does there."""

    table: pd.DataFrame
    texts: str
    general: dict[str, Any]  # what the head does over these texts

    def median(self, metric: str) -> float | None:
        """Return a metric's median over the texts; None where nothing is known."""
        return _number(self.table["median"][metric]) if metric in self.table.index else None

    def in_words(self, metric: str) -> str:
        """Write "higher than on 97 % of the texts"; "" where nothing is known."""
        if metric not in self.table.index:
            return ""
        lower, higher = (float(self.table[side][metric]) for side in ("lower", "higher"))
        if not math.isfinite(lower):
            return ""
        side, share = ("higher", lower) if lower >= higher else ("lower", higher)
        if share == 0:
            return "as on all of the texts"
        most = "all" if share == 1 else f"{math.floor(100 * share)} %"
        return f"{side} than on {most} of the texts"


def percentiles(
    scene: Scene, report: Report, head: tuple[int, int], corpus: ManyTexts
) -> Percentiles | None:
    """Rank a head's numbers among the texts of a finished study; None where there is none.

    It is only looked up: no study is begun for it, and a head's rows are read once.
    """
    if scene.record.part not in ("self", "encoder"):
        return None
    from mha_viz.corpus.query.comparison import percentiles, scores_of_head
    from mha_viz.ui.run.studies import describe, studies

    study = studies().finished(corpus)
    if study is None:
        return None
    key, make = ("scores of a head", study.folder, head), scores_of_head
    rows = memory.cache().get(key, partial(make, study, *head), reporting.table_bytes)
    scores = {metric: float(values[head]) for metric, values in report.scores.items()}
    scores["n_tokens"] = len(scene.record.tokens)
    return Percentiles(percentiles(rows, scores), describe(study, corpus), general(study, head))


_NEAR = range(-5, 6)  # offsets whose weight is drawn


def general(study: Study, head: tuple[int, int]) -> dict[str, Any]:
    """Return what a head does over a study's texts: labels with intervals, weight by key."""
    offsets, kinds, labels = (
        rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]
        for rows in (study.profile_by("offset"), study.profile_by("kind"), study.labels)
    )
    by_offset = dict(zip(offsets["offset"], offsets["weight"], strict=True))
    near = [(true_minus(str(at)), by_offset[str(at)]) for at in _NEAR if str(at) in by_offset]
    return {
        "labels": [
            {"title": LABELS[row["label"]].title}
            | {name: _number(row[name]) for name in ("mean", "low", "high", "share_of_texts")}
            for row in labels.to_dict("records")
        ],
        "offsets": [[at, _number(weight)] for at, weight in near],
        "kinds": [[row["kind"], _number(row["weight"])] for row in kinds.to_dict("records")],
    }


def _unusual_line(percentile: Percentiles, report: Report, head: tuple[int, int]) -> str:
    beyond = percentile.table.drop("n_tokens")[["lower", "higher"]].max(axis=1)
    far = beyond[beyond > _UNUSUAL].sort_values(ascending=False, kind="stable").index
    among, length = f"Against {words.head_name(*head)} on {percentile.texts}", ""
    lower, higher, median = percentile.table.loc[
        "n_tokens", ["lower", "higher", "median"]
    ].to_numpy()
    if max(lower, higher) > _UNUSUAL:  # much grows with the length
        side = "longer" if lower > higher else "shorter"
        length = TEXTS("card.length", side=side, median=median)
    if far.empty:
        return TEXTS("card.usual", among=among, length=length)
    numbers = "; ".join(
        f"{METRICS[metric].title} {words.format_number(report.scores[metric][head])}, "
        f"{percentile.in_words(metric)}"
        for metric in far[:_NAMED]
    )
    more = f"; and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    n, amounts = int(beyond.notna().sum()), {"among": among, "numbers": numbers + more}
    return TEXTS("card.unusual", **amounts, usual=n * 2 * (1 - _UNUSUAL), n=n, length=length)
