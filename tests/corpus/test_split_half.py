"""Intervals that hold what they promise, and shares of one half chosen on the other."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from mha_viz.corpus.treebank.split_half import (
    head_scores,
    in_units,
    on_both_halves,
    unit_wilson,
    wilson,
)


def test_wilson_interval_covers_as_often_as_it_says():
    n = 40
    hits = np.arange(n + 1)
    low, high = wilson(hits, np.full(n + 1, n))
    assert (low >= 0).all() and (high <= 1).all() and (low < high).all()
    shares = np.linspace(0.05, 0.95, 181)[:, None]
    covers = (low <= shares) & (shares <= high)
    coverage = (scipy.stats.binom.pmf(hits, n, shares) * covers).sum(1)
    assert coverage.mean() == pytest.approx(0.95, abs=0.01)


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


def test_interval_of_independent_words_is_wilsons_with_students_quantile():
    """Each word a unit: as sure as n words, but for t in place of z and n - 1 in place of n."""
    hits, ones = np.r_[np.ones(23), np.zeros(40)][None], np.ones((1, 63))
    few = 62 * (scipy.stats.norm.ppf(0.975) / scipy.stats.t.ppf(0.975, 62)) ** 2
    assert np.ravel(unit_wilson(hits, ones)) == pytest.approx(
        np.ravel(wilson(np.array([23 / 63 * few]), np.array([few]))), abs=1e-6
    )


def test_interval_of_words_that_hang_together_is_wider():
    """Units that are all right or all wrong are no more than one word each."""
    units = np.array([1.0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1])[None]
    copied = unit_wilson(17 * units, np.full((1, 13), 17.0))
    assert np.ravel(copied) == pytest.approx(np.ravel(unit_wilson(units, np.ones((1, 13)))))
    low, high = wilson(17 * units.sum(1), np.array([17 * 13]))
    assert copied[0] < low and high < copied[1]
    assert np.isnan(unit_wilson(np.array([[7.0, 0]]), np.array([[13.0, 0]]))).all()


@pytest.mark.parametrize("n_units", [20, 50])
def test_interval_of_words_in_units_covers_as_often_as_it_says(n_units: int):
    rng = np.random.default_rng(n_units)
    n = rng.integers(1, 20, (2_000, n_units))
    hits = rng.binomial(n, rng.beta(2, 3, n.shape))  # each unit has a share of its own
    low, high = unit_wilson(hits.astype(float), n.astype(float))
    assert 0.93 <= ((low <= 0.4) & (high >= 0.4)).mean() <= 0.97


def test_rows_and_columns_of_units_are_laid_out_alike():
    rows = [("report", 0, 3, 5, 2), ("report", 0, 7, 4, 4), ("choose", 0, 3, 9, 9)]
    counts = pd.DataFrame(rows, columns=["half", "head", "unit", "n", "hits"])
    index = pd.Index([0, 1], name="head")
    assert in_units(counts, index, "hits")[0, [3, 7]].tolist() == [2, 4]
    wide = {f"hits_u{unit}": {3: 2, 7: 4}.get(unit, 0) for unit in range(64)}
    wide = pd.DataFrame([{"half": "report", "head": 0} | wide])
    assert in_units(wide, index, "hits")[0, [3, 7]].tolist() == [2, 4]
    assert np.isnan(in_units(wide, index, "hits")[1]).all()


def test_heads_are_held_against_each_baseline():
    rows = [
        dict(half=half, layer=0, head=head, unit=unit, n=9, hits=hits, near_hits=4)
        for half in ("choose", "report")
        for head, hits in ((0, 7), (1, 4))
        for unit in range(12)
    ]
    counts = pd.DataFrame(rows)
    untrained = counts.assign(hits=5 + counts["unit"] % 2)
    found = head_scores(counts, untrained, {"near_baseline": "near_hits"})
    z = np.array([np.sqrt(12), 0.0])  # of all units alike, and of none apart
    assert found["q_near_baseline"].to_numpy() == pytest.approx(
        scipy.stats.false_discovery_control(scipy.stats.norm.sf(z))
    )
    assert (found["q_random_baseline"] <= 0.05).tolist() == [True, False]
    few = head_scores(counts[counts["unit"] < 9], untrained, {"near_baseline": "near_hits"})
    assert few["q_near_baseline"].isna().all() and few["low"].notna().all()
