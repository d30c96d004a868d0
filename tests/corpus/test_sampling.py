"""A sample is fair, repeatable, in order, and drawn in one pass."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from scipy import stats

from mha_viz.corpus.sources.sampling import fair_sample


def drawn(n: int, size: int, seed: int) -> tuple[int, ...]:
    return tuple(fair_sample(iter(range(n)), size, seed))


def test_every_choice_is_equally_likely() -> None:
    found = Counter(drawn(7, 3, seed) for seed in range(1400))
    choices = list(combinations(range(7), 3))
    assert set(found) == set(choices)  # in order, too
    assert stats.chisquare([found[choice] for choice in choices]).pvalue > 0.01


def test_every_place_of_a_long_stream_is_equally_likely() -> None:
    found = Counter(number // 50 for seed in range(50) for number in drawn(1000, 40, seed))
    assert stats.chisquare([found[part] for part in range(20)]).pvalue > 0.01


def test_a_seed_draws_the_same_and_a_larger_sample_contains_the_smaller() -> None:
    assert drawn(1000, 50, 3) == drawn(1000, 50, 3) != drawn(1000, 50, 4)
    assert set(drawn(1000, 50, 3)) < set(drawn(1000, 80, 3))
    assert drawn(5, 50, 3) == (0, 1, 2, 3, 4)
