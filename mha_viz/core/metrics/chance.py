"""What chance alone may score: on few rows, a good deal."""

import functools
import math

from mha_viz.core.checks import Number

RARE = 0.005  # of the heads that pick their keys at random may score as much


@functools.lru_cache(256)  # each label of each layer asks, mostly the same
def beyond_chance(n_rows: Number, by_chance: Number) -> float | None:
    """The least score that heads which pick their keys at random hardly ever reach.

    Such a head puts the whole weight of each row on one key, drawn from those that the row may
    see; on average it scores what uniform attention does. By Chernoff's bound the mean of n such
    rows is a or more with a probability of at most exp(-n D(a)), where p is what it is on average
    and D(a) = a ln(a / p) + (1 - a) ln((1 - a) / (1 - p)). Here a is where that is `RARE`.

    Args:
        n_rows: n, the rows that the score is a mean of.
        by_chance: p, what uniform attention scores, in [0, 1].

    Returns:
        a, a share of the weight in [0, 1]; None where even 1 may be chance, for want of rows.

    Source: Hoeffding 1963, theorem 1, which holds for rows that differ in their chances.

    >>> beyond_chance(3, 0.4), round(beyond_chance(8, 0.2), 2), round(beyond_chance(64, 0.2), 2)
    (None, 0.73, 0.38)
    """
    if n_rows <= 0 or by_chance >= 1:
        return None
    if by_chance <= 0:
        return 0.0  # no key to pick counts: any score at all is more
    needed = -math.log(RARE) / n_rows
    if -math.log(by_chance) < needed:
        return None
    low, high = by_chance, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if _divergence(middle, by_chance) >= needed else (middle, high)
    return high


def _divergence(a: float, p: float) -> float:
    """D(a), nats; a and p lie in (0, 1)."""
    return a * math.log(a / p) + (1 - a) * math.log((1 - a) / (1 - p))
