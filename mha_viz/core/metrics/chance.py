"""Scores that chance alone may reach, and tests of which scores are beyond chance."""

import functools
import math

import numpy as np
from jaxtyping import Bool, Float

from mha_viz.core.attention.checks import Number

RARE = 0.005  # of the heads that pick their keys at random may score as much
RATE = 0.05  # false-discovery rate


def discoveries(
    p_values: Float[np.ndarray, "*test"], rate: float = RATE
) -> Bool[np.ndarray, "*test"]:
    """Find the tests that are significant at a false-discovery rate.

    Source: Benjamini and Hochberg 1995.

    >>> discoveries(np.array([0.001, 0.03, 0.03, 0.9]))
    array([ True,  True,  True, False])
    """
    return q_values(p_values.ravel()).reshape(p_values.shape) <= rate


def q_values(p_values: Float[np.ndarray, "test"]) -> Float[np.ndarray, "test"]:
    """Compute the least false-discovery rate at which each test is a discovery; NaN stays NaN.

    Source: Benjamini and Hochberg 1995.

    >>> q_values(np.array([0.001, 0.03, 0.03, 0.9])).round(3)
    array([0.004, 0.04 , 0.04 , 0.9  ])
    """
    # Not scipy's, whose import takes half a second of the first picture. NaN comes last.
    order = np.argsort(p_values)[: np.isfinite(p_values).sum()]
    adjusted = np.full(len(p_values), np.nan)
    scaled = p_values[order] * len(order) / np.arange(1, len(order) + 1)
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return adjusted


def rank_interval(rho: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a Spearman rank correlation of n independent pairs.

    Fisher's z with the variance (1 + rho² / 2) / (n - 3); NaN for fewer than 4 pairs.

    Source: Bonett and Wright 2000, Sample size requirements for correlations, eq. 3.

    >>> rank_interval(0.0, 32), rank_interval(0.9, 3)
    ((-0.3487, 0.3487), (nan, nan))
    """
    if n < 4:
        return math.nan, math.nan
    reach = 1.959964 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    middle = math.atanh(max(min(rho, 1 - 1e-12), 1e-12 - 1))
    return math.tanh(middle - reach), math.tanh(middle + reach)


@functools.lru_cache(256)  # each label of each layer needs it, mostly for the same numbers
def beyond_chance(n_rows: Number, by_chance: Number) -> float | None:
    """Return the least score that heads which pick their keys at random hardly ever reach.

    There `chance_bound` is `RARE`; `n_rows` and `by_chance` are as there. Returns a share of the
    weight in [0, 1]; None where even 1 may be chance, for want of rows.

    >>> beyond_chance(3, 0.4), round(beyond_chance(8, 0.2), 2), round(beyond_chance(64, 0.2), 2)
    (None, 0.73, 0.38)
    """
    if n_rows <= 0 or by_chance >= 1:
        return None
    if by_chance <= 0:
        return 0.0  # no key to pick counts: any score at all is more
    if chance_bound(1.0, n_rows, by_chance) > RARE:
        return None
    low, high = by_chance, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        rare = chance_bound(middle, n_rows, by_chance) <= RARE
        low, high = (low, middle) if rare else (middle, high)
    return high


def chance_bound(score: Number, n_rows: Number, by_chance: Number) -> float:
    """Bound how often heads that pick their keys at random score as much.

    Such a head puts the whole weight of each row on one key, drawn from those that the row may see;
    on average it scores what uniform attention does. By Chernoff's bound the mean of n such rows is
    a or more with a probability of at most exp(-n D(a)), where p is what it is on average and D(a)
    = a ln(a / p) + (1 - a) ln((1 - a) / (1 - p)). Here a is the `score` and p is `by_chance`, what
    uniform attention scores, both in [0, 1]; n is `n_rows`, the rows that the score is a mean of.

    Source: Hoeffding 1963, theorem 1, which holds for rows that differ in their chances.

    >>> chance_bound(0.25, 5, 0.25), round(chance_bound(0.5, 8, 0.2), 3), chance_bound(1.0, 3, 0.5)
    (1.0, 0.168, 0.125)
    """
    if score <= by_chance:
        return 1.0
    if by_chance <= 0:
        return 0.0
    distance = score * math.log(score / by_chance)
    if score < 1:
        distance += (1 - score) * math.log((1 - score) / (1 - by_chance))
    return math.exp(-n_rows * distance)
