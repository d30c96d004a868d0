"""A head over a study in sentences of numbers, each beside its baseline and with its interval."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mha_viz.core.amounts import format_number
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import ALL, MIN_TARGETS
from mha_viz.paper.all_heads import arc_title
from mha_viz.paper.figures import Head, name_in, of_head
from mha_viz.reports.description import AMOUNTS, CLEAREST, amount, rank_among


def head_sentence(study: Study, head: Head, relations: pd.DataFrame | None = None) -> str:
    """Say what a head does over the texts of a study.

    That is its clearest label, or its most unusual metric: the one in which it is furthest from the
    median of all heads, in median absolute deviations; and, with gold trees, the relation that it
    finds best on the half of the sentences that chooses, if it beats both baselines on the other.

    Args:
        study: any.
        head: (layer, head), by the position of the layer.
        relations: `Study.relations`, where it is at hand: it takes most of a second.

    Returns:
        One sentence, or two; the numbers with 95 % intervals where the study has them.

    Raises:
        ArgumentError: no such head.
    """
    study.check_head(*head)
    sentence = _by_label(study, head) or _by_metric(study, head)
    if not study.has_trees:
        return sentence
    rows = of_head(study.relations if relations is None else relations, head)
    return f"{sentence} {_by_relation(rows)}".rstrip()


def _by_label(study: Study, head: Head) -> str:
    rows = of_head(study.labels, head)
    if rows.empty:
        return ""
    order = rows["label"].map(CLEAREST.index).sort_values(kind="stable").index
    best, *later = rows.loc[order].to_dict("records")
    label = LABELS[best["label"]]
    verb, object_words = label.does.split(" ", 1)
    unit = AMOUNTS[METRICS[label.metric].unit]
    chance = f"baseline {format_number(best['baseline'])}"
    text = (
        f"{name_in(study, head)} {verb}s {object_words}: {format_number(best['mean'])} {unit} "
        f"({_interval(best['low'], best['high'])}{chance}), and on "
        f"{format_number(100 * best['share_of_texts'])} % of single texts"
    )
    also = " and ".join(f"“{LABELS[row['label']].title}”" for row in later)
    return f"{text}; it is also {also}." if also else f"{text}."


def _by_metric(study: Study, head: Head) -> str:
    """Return a sentence on the metric in which a head is furthest from the median of all heads."""
    best, furthest = "", -1.0
    rows = study.heads.dropna(subset="mean")
    for key, of_metric in rows.groupby("metric", sort=False):
        head_mean = of_head(of_metric, head)["mean"].to_numpy(float)
        away = np.abs(of_metric["mean"] - of_metric["mean"].median())
        if len(head_mean) and (spread := float(away.median())) > 0:
            apart = abs(float(head_mean[0]) - float(of_metric["mean"].median())) / spread
            best, furthest = max(
                (best, furthest), (str(key), apart), key=lambda candidate: candidate[1]
            )
    name = name_in(study, head)
    few = study.manifest["counts"].get("n_units", MIN_UNITS) < MIN_UNITS
    begin = f"{name} earns no label on these texts"
    begin += f", as a label takes {MIN_UNITS} independent units" * few
    if not best:
        return f"{begin}."
    of_metric = rows[rows["metric"] == best]
    row = of_head(of_metric, head).to_dict("records")[0]
    values = of_metric["mean"].to_numpy(float)
    return (
        f"{begin}; its most unusual metric is {METRICS[best].title}: "
        f"{amount(best, row['mean'])} ({_interval(row['low'], row['high'])}"
        f"median of all heads {format_number(float(np.median(values)))}), the "
        f"{rank_among(values, row['mean'])}."
    )


def _by_relation(rows: pd.DataFrame) -> str:
    rows = rows[rows["beats"].astype(bool) & (rows["n"] >= MIN_TARGETS)]
    rows = rows[rows["relation"] != ALL].sort_values("chosen_on", kind="stable")
    if rows.empty:
        return ""
    best = rows.iloc[-1]
    against = f"best fixed offset {format_number(best['offset_baseline'])}"
    if pd.notna(best["random_baseline"]):
        against += f", random weights {format_number(best['random_baseline'])}"
    return (
        f"It finds {arc_title(f'{best.relation}.{best.direction}').replace(': ', ' (', 1)}) in "
        f"{format_number(best['accuracy'])} of {best['n']:,} cases "
        f"({_interval(best['low'], best['high'])}{against})."
    )


def _interval(low: float, high: float) -> str:
    """Return an interval in words, ready for what follows it; "" where there is none.

    >>> _interval(0.5, 0.625), _interval(float("nan"), 1.0)
    ('95 % interval 0.5 to 0.625; ', '')
    """
    if not np.isfinite([low, high]).all():
        return ""
    return f"95 % interval {format_number(low)} to {format_number(high)}; "
