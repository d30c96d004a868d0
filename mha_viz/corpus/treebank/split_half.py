"""Unbiased shares: heads are chosen on one half of the sentences and reported on the other."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from mha_viz.core.metrics.chance import q_values
from mha_viz.core.metrics.units import MIN_UNITS, jackknife, paired_p_value, t_quantile
from mha_viz.corpus.treebank.trees import CHOOSE, REPORT

TREE_UNITS = 64  # that are kept apart; of more, as many take turns in each
_Z = 1.959964  # the standard normal distribution's 97.5 %


def wilson(
    hits: NDArray[np.number] | pd.Series, n: NDArray[np.number] | pd.Series
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the lower and upper end, in [0, 1], of the 95 % interval of a share.

    Source: Wilson 1927.

    >>> low, high = wilson(np.array([5, 10]), np.array([10, 10]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.237, 0.722], [0.763, 1.0])
    """
    n_hits, total = np.asarray(hits, dtype=float), np.asarray(n, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # a damaged file holds any
        share = n_hits / total
        middle = share + _Z**2 / (2 * total)
        half = _Z * np.sqrt(share * (1 - share) / total + _Z**2 / (4 * total**2))
        scale = 1 + _Z**2 / total
        return np.clip((middle - half) / scale, 0, 1), np.clip((middle + half) / scale, 0, 1)


def unit_wilson(
    hits: Float[np.ndarray, "row unit"], n: Float[np.ndarray, "row unit"]
) -> tuple[Float[np.ndarray, "row"], Float[np.ndarray, "row"]]:
    """Compute the 95 % interval of a share of words that depend on each other within their unit.

    It is Wilson's of min(n, p (1 - p) / error^2) (z / t)^2 independent words, with the jackknife's
    error and Student's t; NaN of fewer than two units.

    Source: Korn and Graubard 1998; with Wilson's interval Dean and Pagano 2015.
    """
    estimate, total = jackknife(hits, n), n.sum(-1)
    share, sure = estimate.mean, estimate.error > 0
    with np.errstate(all="ignore"):  # a damaged file holds any numbers
        words = np.minimum(share * (1 - share) / np.where(sure, estimate.error, 1.0) ** 2, total)
    words = np.where(sure, words, total) * (_Z / t_quantile(estimate.n_units)) ** 2
    words = np.where(estimate.n_units > 1, words, np.nan)
    low, high = wilson(share * words, words)
    # 0 and 1 are at an end, but for rounding
    return np.minimum(low, share), np.maximum(high, share)


def has_units(counts: pd.DataFrame) -> bool:
    """Tell whether counts are by unit, in rows or in columns; in earlier versions they were not."""
    return "unit" in counts or "hits_u0" in counts


def in_units(counts: pd.DataFrame, rows: pd.Index, column: str) -> Float[np.ndarray, "row unit"]:
    """Lay out a column of counts on the half that reports, by row and unit; NaN without a row."""
    where = list(rows.names)
    reported = counts[counts["half"] == REPORT]
    if "unit" in counts:
        sums = reported.groupby([*where, "unit"])[column].sum().unstack(fill_value=0)
        sums = sums.reindex(columns=range(TREE_UNITS), fill_value=0)
    else:
        names = [f"{column}_u{unit}" for unit in range(TREE_UNITS)]
        sums = reported.groupby(where)[names].sum()
    return sums.reindex(rows).to_numpy(float)


def p_value(
    counts: pd.DataFrame,
    rows: pd.Index,
    theirs: pd.DataFrame | None,
    baseline_rows: pd.Index | None = None,
    column: str = "hits",
) -> Float[np.ndarray, "row"]:
    """Test whether hits beat a baseline's, in its `baseline_rows`, on the half that reports.

    NaN of fewer than `MIN_UNITS` units, and where units or the baseline are not known.
    """
    if theirs is None or not (has_units(counts) and has_units(theirs)):
        return np.full(len(rows), np.nan)
    hits, n = (in_units(counts, rows, name) for name in ("hits", "n"))
    baseline_rows = rows if baseline_rows is None else baseline_rows
    p = paired_p_value(hits, in_units(theirs, baseline_rows, column))
    return np.where((n > 0).sum(-1) < MIN_UNITS, np.nan, p)


def on_both_halves(counts: pd.DataFrame, where: list[str]) -> pd.DataFrame:
    """Compute shares of hits, by place; only of places that both halves know.

    Args:
        counts: half, n, hits, and the columns of `where`; rows of one place are added up.
        where: what a row is about, such as layer and head.

    Returns:
        Indexed by `where`: n, accuracy, low and high (`unit_wilson`; in studies of earlier versions
        `wilson`) on the half that reports, and chosen_on, the accuracy on the half that chooses.
    """
    sums = counts.groupby(["half", *where])[["n", "hits"]].sum()
    halves = [
        sums.xs(half) if half in sums.index.get_level_values(0) else sums.iloc[:0].droplevel(0)
        for half in (CHOOSE, REPORT)
    ]
    both = halves[0].add_suffix("_choose").join(halves[1], how="inner")
    low, high = wilson(both["hits"], both["n"])
    if has_units(counts):
        low, high = unit_wilson(*(in_units(counts, both.index, name) for name in ("hits", "n")))
    return both.assign(
        accuracy=both["hits"] / both["n"],
        low=low,
        high=high,
        chosen_on=both["hits_choose"] / both["n_choose"],
    )[["n", "accuracy", "low", "high", "chosen_on"]]


def head_scores(
    counts: pd.DataFrame, untrained: pd.DataFrame | None, baselines: Mapping[str, str]
) -> pd.DataFrame:
    """Compute every head's shares beside those of baselines, given by their columns of hits.

    Returns:
        A row per layer and head: n, accuracy, low and high (`unit_wilson`) on the half that
        reports, beside each baseline and `random_baseline` (the same head of the untrained model,
        NaN without one) there; `chosen_on`, the accuracy on the half that chooses; `chosen`,
        whether that is the highest of all heads, the first one's of several; and for each
        baseline, `q_` and its name, the least false-discovery rate over all heads at which the
        head beats it (`p_value`, `q_values`).
    """
    where = ["layer", "head"]
    scores = on_both_halves(counts, where)
    names, every = ["n", "accuracy", "low", "high"], [*baselines, "random_baseline"]
    for name, hits in baselines.items():
        scores[name] = on_both_halves(counts.assign(hits=counts[hits]), where)["accuracy"]
        scores[f"q_{name}"] = q_values(p_value(counts, scores.index, counts, column=hits))
    scores["q_random_baseline"] = q_values(p_value(counts, scores.index, untrained))
    scores = scores.reset_index()
    scores["random_baseline"] = untrained_accuracy(scores, untrained, where)
    scores["chosen"] = scores.index == (scores["chosen_on"].idxmax() if len(scores) else -1)
    last = [f"q_{name}" for name in every]
    return scores[[*where, *names, *every, "chosen_on", "chosen", *last]]


def untrained_accuracy(
    heads: pd.DataFrame, untrained: pd.DataFrame | None, where: list[str]
) -> NDArray[np.float64]:
    """Compute the accuracy of the same heads with random weights; NaN where there are none."""
    if untrained is None or untrained.empty:
        return np.full(len(heads), np.nan)
    theirs = on_both_halves(untrained, where)["accuracy"]
    return theirs.reindex(pd.MultiIndex.from_frame(heads[where])).to_numpy()
