"""Measures of heads and texts of a study: metrics, labels and relations, for menus."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.query.search import DIRECTIONS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import ALL
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets.controls import choosing

_LABEL = "label "  # before the key of a label, which may be that of a metric as well


def metrics(study: Study) -> dict[str, str]:
    """Return the metrics of a study by their keys, and their titles."""
    measured = set(study.heads["metric"])
    return {key: METRICS[key].title for key in METRICS if key in measured}


def labels(study: Study) -> dict[str, str]:
    """Return the labels that a study's metrics decide, likewise."""
    measured = metrics(study)
    return {key: label.title for key, label in LABELS.items() if label.metric in measured}


def metrics_and_labels(study: Study) -> dict[str, str]:
    """Return both, as `select` takes them."""
    titles = {f"{_LABEL}{key}": f"Label: {title}" for key, title in labels(study).items()}
    return metrics(study) | titles


def selected(view: ManyTexts) -> str:
    """Return the label that a view has chosen, else its metric; as `select` takes it."""
    return f"{_LABEL}{view.kind}" if view.kind in LABELS else view.metric


def select(key: str) -> None:
    """Choose a metric or label."""
    label = key.removeprefix(_LABEL)
    if label != key:
        selection.change(kind=label)
    else:
        selection.change(kind="", metric=key)


def cached(make: Callable[..., pd.DataFrame], *studies: Study) -> pd.DataFrame:
    """Return a table that is made of studies, made once."""
    key = (repr(make), *(study.folder for study in studies))
    return memory.cache().get(key, lambda: make(*studies), reporting.table_bytes)


def relation_scores(study: Study) -> pd.DataFrame:
    """Return `Study.relations`, computed once."""
    return cached(attrgetter("relations"), study)


def best_heads(study: Study, by: str) -> pd.DataFrame:
    """Return `Study.best_heads`, computed once."""
    return cached(partial(Study.best_heads, by=by), study)


def metric_menu(study: Study) -> None:
    """Draw the menu of a study's metrics."""
    choosing.menu("metric", "Metric", metrics(study), width=280)


def score_menu(study: Study, view: ManyTexts) -> None:
    """Draw the menu of what texts are ranked by: metrics and labels."""
    offered = metrics_and_labels(study)
    options: dict[str, Any] = {"format_func": offered.__getitem__, "width": 240}
    options |= {"value": selected(view), "take": select}
    selection.control("score", st.selectbox, "Score", list(offered), **options)


def score(view: ManyTexts) -> str:
    """Return the key of the label or metric that texts are ranked by."""
    return view.kind if view.kind in LABELS else view.metric


def score_metric(view: ManyTexts) -> str:
    """Return the metric that texts are ranked by: that of the label, where one is chosen."""
    return LABELS[view.kind].metric if view.kind in LABELS else view.metric


def score_title(view: ManyTexts) -> str:
    """Return the title of the label or metric that texts are ranked by."""
    return LABELS[view.kind].title if view.kind in LABELS else METRICS[view.metric].title


def relations(study: Study) -> list[str]:
    """Return the relations whose accuracy a study knows, `ALL` first, as "nsubj.to_head"."""
    rows = study.sql(
        "SELECT relation, direction FROM relations GROUP BY ALL HAVING count(DISTINCT half) = 2"
    )
    pairs = sorted(rows.itertuples(index=False), key=lambda pair: (pair[0] != ALL, *pair))
    return [".".join(pair) for pair in pairs]


def token_relations(study: Study) -> list[str]:
    """Return the relations between any two tokens of a study, and shared prefixes."""
    names = set(study.sql("SELECT DISTINCT relation FROM arcs")["relation"])
    every = names | {name.partition(":")[0] for name in names}
    return [f"{relation}.{way}" for relation in sorted(every) for way in DIRECTIONS]
