"""Best heads of a treebank study, each with a verdict, and beside those of Clark et al. 2019."""

from collections.abc import Hashable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from mha_viz.core.metrics.chance import RATE
from mha_viz.corpus.treebank.relations import KEYS, MIN_TARGETS
from mha_viz.errors import ArgumentError

QUESTIONS = ("relations", "trees", "coreference", "parts_of_speech")
BEATS = "beats all"
UNKNOWN = "too little to say"
BASELINES = {
    "offset_baseline": "the best offset",
    "branching_baseline": "joining neighbours",
    "nearest_baseline": "the nearest mention",
    "same_word_baseline": "the nearest mention with the same word",
    "random_baseline": "random weights",
}


def best_heads(scores: pd.DataFrame, by: str) -> pd.DataFrame:
    """Rank a study's heads for a question, those first that beat every baseline.

    `scores` is the study's table of that name, `by` one of `QUESTIONS`.

    Returns:
        For "relations" a row per relation and direction, with the head that was chosen for it; for
        "parts_of_speech" one per pair of parts, with the head whose weight is farthest above
        `expected`; else one per head. Only of `MIN_TARGETS` words or more. The columns are those of
        `scores`, with a `verdict` where there are baselines.

    Source: Clark et al. 2019, Table 1.
    """
    if by == "parts_of_speech":
        frequent = scores[scores["n_words"] >= MIN_TARGETS].sort_values("difference", kind="stable")
        best = frequent.drop_duplicates(["from_upos", "to_upos"], keep="last")
        return best.iloc[::-1].reset_index(drop=True)
    n, score = ("n_arcs", "uuas") if by == "trees" else ("n", "accuracy")
    rows = scores[scores[n] >= MIN_TARGETS]
    first = ["layer", "head", n, score, "low", "high"]
    if by == "relations":
        rows, first = rows[rows["chosen"]], [*KEYS, *first]
    baselines = [name for name in BASELINES if name in rows]
    tests = [name for name in rows if name in ("offset", "p", "q") or str(name).startswith("q_")]
    verdicts = [verdict(row, score) for row in rows.to_dict("records")]
    rows = rows[[*first, *baselines, *tests]].assign(verdict=pd.Series(verdicts, rows.index, str))
    order = pd.DataFrame({"beats": rows["verdict"] != BEATS, "score": -rows[score]})
    ranked = order.sort_values(["beats", "score"], kind="stable").index
    return rows.loc[ranked].reset_index(drop=True)


def verdict(row: Mapping[Hashable, Any], score: str = "accuracy") -> str:
    """Say of a head's scores whether it beats its baselines.

    It does where the least false-discovery rate of its tests, in the columns `q` or `q_` with a
    baseline's name, is `RATE` at most.

    >>> row = {"accuracy": 0.64, "offset_baseline": 0.31, "random_baseline": 0.68, "q": 0.8}
    >>> verdict(row), verdict(row | {"q": 0.01}), verdict(row | {"random_baseline": 0.6})
    ('not above random weights', 'beats all', 'above all, but not beyond chance')
    """
    baselines = [name for name in BASELINES if not np.isnan(row.get(name, np.nan))]
    q = np.array([row["q"]] if "q" in row else [row[f"q_{name}"] for name in baselines])
    if not len(q) or np.isnan(q).any():
        return UNKNOWN
    if (q <= RATE).all():
        return BEATS
    behind = [BASELINES[name] for name in baselines if row[score] <= row[name]]
    return f"not above {' or '.join(behind)}" if behind else "above all, but not beyond chance"


MODEL = "bert-base-uncased"  # in lower case, 12 layers of 12 heads, as the paper's
PUBLISHED = "published"  # a question to `Study.best_heads`
_TABLE = files("mha_viz.corpus.treebank") / "clark_2019.csv"
_PERCENT = ["accuracy", "offset_baseline"]


def beside_published(best: pd.DataFrame, relations: pd.DataFrame, model: str) -> pd.DataFrame:
    """Put the published head and accuracy of each relation beside a study's own.

    Args:
        best: `best_heads(relations, "relations")`.
        relations: the study's table of that name.
        model: name of the study's model, which must be the paper's.

    Returns:
        A row per relation that both have, in the paper's order: relation, direction, layer, head,
        n, accuracy, low, high and offset_baseline of the study; the paper's own, which begin with
        `published_`; and published_head_here, the accuracy of the paper's head in the study.
        Accuracies are 0 to 1.

    Raises:
        ArgumentError: figures of another model would say nothing.

    Source: Clark et al. 2019, Table 1; numbers from their Syntax_Analysis.ipynb, which makes it.
    """
    if model.replace("\\", "/").rstrip("/").rpartition("/")[2] != MODEL:
        raise ArgumentError(
            f"Clark et al. 2019 report on {MODEL}, and this study is of {model}: there is nothing "
            'to put beside it. Its own heads are in best_heads("relations").'
        )
    with _TABLE.open() as file:
        paper = pd.read_csv(file)
    paper[_PERCENT] /= 100
    head_keys = [*KEYS, "layer", "head"]
    accuracy = relations.set_index(head_keys)["accuracy"].rename("published_head_here")
    paper = paper.join(accuracy, on=head_keys)
    renamed = [name for name in paper if name not in (*KEYS, "published_relation", accuracy.name)]
    paper = paper.rename(columns={name: f"published_{name}" for name in renamed})
    first = [*head_keys, "n", "accuracy", "low", "high", "offset_baseline"]
    return paper.merge(best[first], on=KEYS)[[*first, *paper.columns.drop(KEYS)]]
