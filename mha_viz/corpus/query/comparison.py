"""Comparison of studies, or of one with random weights or a single text: metrics, gold trees."""

import math
from collections.abc import Mapping
from typing import NamedTuple, SupportsFloat

import numpy as np
import pandas as pd

from mha_viz.core.attention.checks import Number
from mha_viz.core.compare.matching import assigned
from mha_viz.core.metrics.chance import RATE, q_values
from mha_viz.core.metrics.units import difference
from mha_viz.corpus.query.best_heads import UNKNOWN
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.statistics.intervals import UnitSums
from mha_viz.corpus.store.blocks import blocks, columns_of
from mha_viz.corpus.treebank.relations import KEYS, MIN_TARGETS
from mha_viz.corpus.treebank.split_half import has_units, in_units
from mha_viz.errors import ArgumentError, StudyError

_KEYS = ["layer", "head", "metric"]


class _Side(NamedTuple):
    """One side of a comparison: a study, its table of rows by text, and their means."""

    study: Study
    rows: str
    means: pd.DataFrame


def compare(a: Study, b: Study) -> pd.DataFrame:
    """Compare two studies head by head and metric by metric.

    Where both are of the same source (another model, or the same one with random weights) and hold
    rows by text, each text is compared with itself and the standard error is that of the
    differences; else it is sqrt(e_a^2 + e_b^2). Either takes a study's units as independent, and
    not its texts (`core.metrics.units.jackknife`).

    Returns:
        DataFrame with the columns layer, head, metric, mean_a, mean_b, difference (b - a),
        standard_error, standard_errors (difference / standard_error; NaN where a single text or no
        spread leaves it undefined) and n_texts (pairs, or the smaller number), the largest
        standard_errors first. With hundreds of heads and a dozen metrics some differ by 3 or 4
        standard errors by chance alone.

    Raises:
        ArgumentError: models of other sizes.
    """
    if (a.n_layers, a.n_heads) != (b.n_layers, b.n_heads):
        raise ArgumentError(
            f"Two studies are compared head by head: expected as many layers and heads, got "
            f"{a.n_layers} x {a.n_heads} and {b.n_layers} x {b.n_heads}."
        )
    same = source_plan(a) == source_plan(b)
    sides = [_Side(study, "texts", _means(study, "heads")) for study in (a, b)]
    return _compared(*sides, same_texts=same and a.has_texts and b.has_texts)


def source_plan(study: Study) -> list[object]:
    """Return what decides the numbers of texts; joined ones are as long as the model takes."""
    join = study.manifest["settings"].get("join")
    names = ("n_ctx", "tokens_sha256") if join else ()
    return [study.manifest["source"], join, *(study.manifest["model"][name] for name in names)]


def compare_matched(a: Study, b: Study) -> pd.DataFrame:
    """Match the heads of two models one to one by where their weight goes over all texts.

    Heads of any layer may be matched, of models of any size; where one has more, some have no
    counterpart. Two heads are sqrt(mean(1 - sum sqrt(P Q))) apart, with P and Q the shares of their
    weight by offset and by kind of key, a sum for each of the two: Hellinger distances.
    `match_heads` compares what heads do on each single text, and has a test against chance.

    Returns:
        layer_a, head_a, layer_b, head_b, distance (0 to 1), and `as_near`, the share of all pairs
        of a head of a with one of b that are no farther apart. The nearest first.

    Source: Kuhn 1955, by scipy's `linear_sum_assignment`.
    """
    squares = []
    for axis in ("offset", "kind"):
        sides = [
            study.profile_by(axis)
            .pivot(index=["layer", "head"], columns=axis, values="weight")
            .fillna(0.0)
            for study in (a, b)
        ]
        first, second = (
            np.sqrt(side / np.maximum(side.sum(1, keepdims=True), 1e-12))
            for side in map(pd.DataFrame.to_numpy, sides[0].align(sides[1], axis=1, fill_value=0.0))
        )
        squares.append(1 - first @ second.T)
    apart = np.sqrt(np.maximum(np.mean(squares, 0), 0.0))
    turned = len(apart) > len(apart.T)
    chosen, distance = assigned(apart.T if turned else apart)
    both = np.arange(len(chosen)), chosen
    (layer_a, head_a), (layer_b, head_b) = (
        np.divmod(side, study.n_heads)
        for side, study in zip(both[::-1] if turned else both, (a, b), strict=True)
    )
    as_near = [float((apart <= nearest).mean()) for nearest in distance]
    heads = dict(layer_a=layer_a, head_a=head_a, layer_b=layer_b, head_b=head_b)
    pairs = pd.DataFrame({**heads, "distance": distance, "as_near": as_near})
    return pairs.sort_values("distance", kind="stable").reset_index(drop=True)


def compare_distributions(a: Study, b: Study) -> pd.DataFrame:
    """Compare how the heads of two models, of any size, are spread in each metric.

    Returns:
        A row per metric that both have: apart, by how many standard deviations over heads the
        median head of b is above that of a; mean, std, min, 25%, 50%, 75% and max of the heads'
        means over texts, of each (_a, _b). The farthest apart first. Heads of one model are no
        independent draws, so that there is no test.
    """
    sides = [study.heads.groupby("metric")["mean"].describe() for study in (a, b)]
    metrics = sides[0].merge(sides[1], on="metric", suffixes=("_a", "_b"))
    deviation = ((metrics["std_a"] ** 2 + metrics["std_b"] ** 2) / 2) ** 0.5
    apart = (metrics["50%_b"] - metrics["50%_a"]) / deviation.where(deviation > 0)
    order = apart.abs().sort_values(ascending=False, kind="stable").index
    return metrics.drop(columns=["count_a", "count_b"]).loc[order].assign(apart=apart).reset_index()


def compare_with_random(study: Study) -> pd.DataFrame:
    """Compare a study with random weights on the same texts: what every head has learned.

    Returns:
        As `compare`; a are the random weights and b is the trained model.

    Raises:
        StudyError: the study was made without random weights.
    """
    if "untrained_heads" not in study._database.tables:
        raise StudyError(
            "This study has no random weights beside it: the config of its model does not say how "
            "to build the model anew."
        )
    untrained = _Side(study, "untrained", _means(study, "untrained_heads"))
    trained = _Side(study, "texts", _means(study, "heads"))
    return _compared(untrained, trained, same_texts=study.has_texts)


def _means(study: Study, table: str) -> pd.DataFrame:
    """Read means with their standard errors; earlier versions took each text as a unit."""
    rows = study.sql(f"SELECT * FROM {table}")
    error = (
        rows["standard_error"] if "standard_error" in rows else rows["std"] / rows["n_texts"] ** 0.5
    )
    return rows[[*_KEYS, "n_texts", "mean"]].assign(error=error)


def beyond_by_chance(n: int, standard_errors: Number) -> float:
    """Estimate how many of n numbers come so far from 0, on either side, where nothing differs.

    By the normal distribution, which means over some thirty texts or more follow.

    >>> round(beyond_by_chance(144, 3), 1), round(beyond_by_chance(144, 2))
    (0.4, 7)
    """
    return n * math.erfc(standard_errors / math.sqrt(2))


def _compared(a: _Side, b: _Side, *, same_texts: bool) -> pd.DataFrame:
    both = a.means.merge(b.means, on=_KEYS, suffixes=("_a", "_b"))
    table = both[[*_KEYS, "mean_a", "mean_b"]].copy()
    table["difference"] = both.mean_b - both.mean_a
    table["standard_error"] = np.hypot(both.error_a, both.error_b)
    table["n_texts"] = both[["n_texts_a", "n_texts_b"]].min(axis=1)
    if same_texts:
        paired = _paired(a, b)
        table = table.drop(columns=list(paired.columns.difference(_KEYS))).merge(paired, on=_KEYS)
    error = table["standard_error"].where(table["standard_error"] > 0)
    table["standard_errors"] = table["difference"] / error
    last = ["difference", "standard_error", "standard_errors", "n_texts"]
    order = table["standard_errors"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order, [*_KEYS, "mean_a", "mean_b", *last]].reset_index(drop=True)


def _paired(a: _Side, b: _Side) -> pd.DataFrame:
    """Compute mean and standard error, over units, of the differences on the common texts."""
    ours_in, theirs_in = (side.study._database.cursor() for side in (a, b))
    theirs_has = columns_of(theirs_in, b.rows)
    columns = tuple(c for c in columns_of(ours_in, a.rows) if c in theirs_has)
    rows_per_text = a.study.n_layers * a.study.n_heads
    sums = UnitSums(rows_per_text * len(columns))
    of_b = blocks(theirs_in, b.rows, columns, rows_per_text)
    theirs, _ = next(of_b)
    for ours, units in blocks(ours_in, a.rows, columns, rows_per_text):
        while True:
            numbers = ours.text_ids, theirs.text_ids
            _, our_rows, their_rows = np.intersect1d(*numbers, return_indices=True)
            apart = theirs.values[their_rows].astype(float) - ours.values[our_rows]
            sums.add(units[our_rows], apart.reshape(len(our_rows), rows_per_text * len(columns)))
            if theirs.text_ids[-1] >= ours.text_ids[-1] or (following := next(of_b, None)) is None:
                break
            theirs, _ = following
    of_units = sums.jackknife()
    head_number, column = np.divmod(np.arange(len(of_units.mean)), len(columns))
    layer, head = np.divmod(head_number, a.study.n_heads)
    rows = {"layer": layer, "head": head, "metric": np.array(columns)[column]}
    rows |= {"difference": of_units.mean, "standard_error": of_units.error}
    return pd.DataFrame({**rows, "n_texts": sums.counts.sum(1).astype(int)})


TREE_QUESTIONS = ("relations", "trees", "coreference")
_HEAD = ["layer", "head"]
_NAMES = {"n_arcs": "n", "uuas": "accuracy"}


def compare_trees(a: Study, b: Study, by: str = "relations") -> pd.DataFrame:
    """Compare two studies of a treebank by what their heads find in it.

    Where both are of the same source, the test is paired by unit, else the studies are independent
    (`core.metrics.units.difference`). A causal model is asked for fewer words, so that n_a and n_b
    may differ. All is of the half of the sentences that reports, on which no head was chosen.

    Args:
        a: a study.
        b: another one.
        by: "relations", "trees" (UUAS) or "coreference": head by head, of models with as many
            layers and heads; or "best": of any models, the best heads for each of these questions.

    Returns:
        DataFrame with relation, or the question, and direction; layer and head, of "best" layer_a,
        head_a, layer_b and head_b; n_a, n_b, accuracy_a, accuracy_b (or the UUAS), difference (b -
        a) with its 95 % interval, low and high; p, two-sided; q, the least false-discovery rate at
        which it is a difference, of all rows of 20 words or more; and better, "a", "b" or
        "neither". The least q first.

    Raises:
        ArgumentError: no such question; models of other sizes, head by head.
        StudyError: no gold trees, or a study of an earlier version without units.
    """
    if by == "best":
        every = [_compared_in_trees(a, b, question, KEYS) for question in TREE_QUESTIONS]
        return _ranked(pd.concat(every, ignore_index=True))
    if by not in TREE_QUESTIONS:
        questions = ", ".join((*TREE_QUESTIONS, "best"))
        raise ArgumentError(f"by must be one of {questions}, got {by!r}.")
    if (a.n_layers, a.n_heads) != (b.n_layers, b.n_heads):
        raise ArgumentError(
            'Models of other sizes are compared by their best heads, by="best": expected as many '
            f"layers and heads, got {a.n_layers} x {a.n_heads} and {b.n_layers} x {b.n_heads}."
        )
    return _ranked(_compared_in_trees(a, b, by, [*KEYS, *_HEAD]))


def _compared_in_trees(a: Study, b: Study, by: str, keys: list[str]) -> pd.DataFrame:
    """Test the difference of each two heads with the same keys; without heads, of chosen ones."""
    columns = [*KEYS, *_HEAD] if by == "relations" else _HEAD
    sides = []
    for study in (a, b):
        scores = getattr(study, by).rename(columns=_NAMES)
        scores = scores if by == "relations" else scores.assign(relation=by, direction="")
        scores = scores if keys != KEYS else scores[scores["chosen"]]
        sides.append(scores[[*KEYS, *_HEAD, "n", "accuracy"]])
    both = sides[0].merge(sides[1], on=keys, suffixes=("_a", "_b"))
    sums = []
    for side, study in (("_a", a), ("_b", b)):
        counts = study.sql(f"SELECT * FROM {by}").rename(columns=_NAMES)
        if not has_units(counts):
            raise StudyError(f"An earlier version of mha-viz made {study.folder}: make it again.")
        side_keys = both[[name + side if name + side in both else name for name in columns]]
        rows = pd.MultiIndex.from_frame(side_keys.set_axis(columns, axis=1))
        sums.append((in_units(counts, rows, "hits"), in_units(counts, rows, "n")))
    return both.assign(**difference(*sums, paired=source_plan(a) == source_plan(b)))


def _ranked(both: pd.DataFrame) -> pd.DataFrame:
    """Add q, and which is better; put the surest differences first."""
    enough = both[["n_a", "n_b"]].min(axis=1) >= MIN_TARGETS
    tested = both.assign(q=q_values(both["p"].where(enough).to_numpy(float)))
    words = np.where(tested["q"] <= RATE, np.where(tested["difference"] > 0, "b", "a"), "neither")
    tested["better"] = np.where(tested["q"].isna(), UNKNOWN, words)
    order = tested.assign(size=-tested["difference"].abs()).sort_values(["q", "p", "size"]).index
    return tested.loc[order].reset_index(drop=True)


_ROUNDING = 1e-4  # of a number: as far apart as rounding leaves two runs of one text


def scores_of_head(study: Study, layer: int, head: int) -> pd.DataFrame:
    """Read one head's scores: a row for each text, n_tokens and a column for each metric.

    NaN: not defined on that text.
    """
    rows = study.texts.filter(f"layer = {layer:d} AND head = {head:d}").df()
    return rows.drop(columns=["text_id", "layer", "head"])


def percentiles(rows: pd.DataFrame, scores: Mapping[str, SupportsFloat]) -> pd.DataFrame:
    """Compute which share of a study's texts scores less, and which more, than one text.

    Texts that score as much, but for rounding, are neither: a head that never does a thing is not
    unusual where it does not.

    Args:
        rows: of `scores_of_head`.
        scores: metric -> what the same head scores on the text, and n_tokens, how long that is;
            metrics that the study does not have are left out.

    Returns:
        DataFrame by metric: n_texts (on which the metric is defined), median, lower and higher (the
        shares of them that score less and more); NaN where it is not defined there, or here.

    >>> rows = pd.DataFrame({"entropy": [1.0, 2.0, 3.0, np.nan]})
    >>> percentiles(rows, {"entropy": 2.5}).round(2).to_dict("records")
    [{'n_texts': 3, 'median': 2.0, 'lower': 0.67, 'higher': 0.33}]
    """
    by_metric = {}
    for metric in [name for name in scores if name in rows]:
        defined = rows[metric].dropna().to_numpy(float)
        score = float(scores[metric])
        is_equal = np.isclose(defined, score, rtol=_ROUNDING, atol=1e-6)
        apart = np.where(is_equal, 0.0, defined - score)
        shares = (np.nan, np.nan)
        if len(defined) and np.isfinite(score):
            shares = float((apart < 0).mean()), float((apart > 0).mean())
        median = float(np.median(defined)) if len(defined) else np.nan
        by_metric[metric] = (len(defined), median, *shares)
    return pd.DataFrame.from_dict(
        by_metric, orient="index", columns=["n_texts", "median", "lower", "higher"]
    )
