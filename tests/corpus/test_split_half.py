"""Intervals that hold what they promise, and shares of one half chosen on the other."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from mha_viz.corpus.treebank.split_half import on_both_halves, wilson


def test_wilson_interval_covers_as_often_as_it_says():
    """Exactly, over all outcomes of a binomial; Wilson's mean coverage is near 95 %."""
    n = 40
    low, high = wilson(np.arange(n + 1), np.full(n + 1, n))
    assert (low >= 0).all() and (high <= 1).all() and (low < high).all()
    covered = []
    for share in np.linspace(0.05, 0.95, 181):
        odds = np.array(
            [np.prod(np.arange(n - k + 1, n + 1) / np.arange(1, k + 1)) for k in range(n + 1)]
        )
        odds = odds * share ** np.arange(n + 1) * (1 - share) ** (n - np.arange(n + 1))
        covered.append(odds[(low <= share) & (share <= high)].sum())
    assert np.mean(covered) == pytest.approx(0.95, abs=0.01)


def test_wilson_ends_are_as_far_from_the_share_as_their_own_spread_allows():
    n = 23
    hits = np.arange(n + 1)
    z = scipy.stats.norm.ppf(0.975)
    for end in wilson(hits, np.full(n + 1, n)):
        allowed = z * np.sqrt(end * (1 - end) / n)
        assert np.abs(hits / n - end) == pytest.approx(allowed, abs=1e-6)


def test_nothing_counted_has_no_interval():
    low, high = wilson(np.array([0]), np.array([0]))
    assert np.isnan(low[0]) and np.isnan(high[0])


def test_rows_of_one_place_add_up_and_places_of_one_half_are_left_out():
    rows = [("choose", 0, 4, 1), ("choose", 0, 4, 3), ("report", 0, 5, 5), ("report", 1, 9, 9)]
    counts = pd.DataFrame(rows, columns=["half", "head", "n", "hits"])
    [found] = on_both_halves(counts, ["head"]).reset_index().to_dict("records")
    assert (found["head"], found["n"], found["accuracy"], found["chosen_on"]) == (0, 5, 1.0, 0.5)
