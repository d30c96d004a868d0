"""Unbiased shares: heads are chosen on one half of the sentences and reported on the other."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mha_viz.corpus.treebank.trees import CHOOSE, REPORT

_Z = 1.959964  # the standard normal distribution's 97.5 %


def wilson(
    hits: NDArray[np.number] | pd.Series, n: NDArray[np.number] | pd.Series
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the 95 % interval of a share.

    Returns:
        Lower and upper ends, in [0, 1].

    Source: Wilson 1927.

    >>> low, high = wilson(np.array([5, 10]), np.array([10, 10]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.237, 0.722], [0.763, 1.0])
    """
    found, total = np.asarray(hits, dtype=float), np.asarray(n, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # a damaged file holds any
        share = found / total
        middle = share + _Z**2 / (2 * total)
        half = _Z * np.sqrt(share * (1 - share) / total + _Z**2 / (4 * total**2))
        scale = 1 + _Z**2 / total
        return np.clip((middle - half) / scale, 0, 1), np.clip((middle + half) / scale, 0, 1)


def on_both_halves(counts: pd.DataFrame, where: list[str]) -> pd.DataFrame:
    """Compute shares of hits, by place; only of places that both halves know.

    Args:
        counts: half, n, hits, and the columns of `where`; rows of one place are added up.
        where: what a row is about, such as layer and head.

    Returns:
        Indexed by `where`: n, accuracy, low and high (`wilson`) on the half that reports, and
        chosen_on, the accuracy on the half that chooses.
    """
    sums = counts.groupby(["half", *where])[["n", "hits"]].sum()
    halves = [
        sums.xs(half) if half in sums.index.get_level_values(0) else sums.iloc[:0].droplevel(0)
        for half in (CHOOSE, REPORT)
    ]
    both = halves[0].add_suffix("_choose").join(halves[1], how="inner")
    low, high = wilson(both["hits"], both["n"])
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

    The head with the highest accuracy on the half that chooses is marked as chosen.
    """
    where = ["layer", "head"]
    found = on_both_halves(counts, where)
    names = ["n", "accuracy", "low", "high"]
    for name, hits in baselines.items():
        found[name] = on_both_halves(counts.assign(hits=counts[hits]), where)["accuracy"]
    found = found.reset_index()
    found["random_baseline"] = untrained_accuracy(found, untrained, where)
    found["chosen"] = found.index == (found["chosen_on"].idxmax() if len(found) else -1)
    return found[[*where, *names, *baselines, "random_baseline", "chosen_on", "chosen"]]


def untrained_accuracy(
    places: pd.DataFrame, untrained: pd.DataFrame | None, where: list[str]
) -> NDArray[np.float64]:
    """Compute the accuracy of the same heads with random weights; NaN where there are none."""
    if untrained is None or untrained.empty:
        return np.full(len(places), np.nan)
    theirs = on_both_halves(untrained, where)["accuracy"]
    return theirs.reindex(pd.MultiIndex.from_frame(places[where])).to_numpy()
