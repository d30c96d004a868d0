"""Likeness by chance: heads that share nothing are seldom found alike, planted twins are."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mha_viz.core.compare.chance import (
    HELD,
    LEAST,
    diversity_band,
    p_values,
    permuted_pairs,
    untrained_band,
)
from mha_viz.core.measure import as_distances, head_similarity
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import discoveries, rank_interval
from mha_viz.core.metrics.parameters import diversity
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.core.record.record import AttentionRecord
from tests.core.records import make

HEADS, N, D_HEAD = 19, 13, 7
DRAWS = 30
# One draw of twenty finds something by chance: of 30, at most 5 in 99 cases of 100.
MOST_FALSE = 5
SCALES = torch.tensor([9.0, 3, 1, 1, 1, 1, 1])
ONCE = np.triu_indices(HEADS, 1)


def unrelated(causal: bool = False, n: int = N, seed: int = 3) -> AttentionRecord:
    """Heads drawn independently of each other, some of them broad and some of them sharp."""
    dice = torch.Generator().manual_seed(seed)
    sharp = torch.linspace(0.3, 6, HEADS)[:, None, None]
    scores = sharp * torch.randn(1, HEADS, n, n, generator=dice)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) & causal
    pattern = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    z = torch.randn(1, HEADS, n, D_HEAD, generator=dice)
    # Few directions each, as heads have, and each its own.
    z *= torch.stack([SCALES[torch.randperm(D_HEAD, generator=dice)] for _ in range(HEADS)])[
        :, None
    ]
    tokens = tuple(replace(make().tokens[0], id=i) for i in range(n))
    return AttentionRecord(pattern=pattern, tokens=tokens, model="drawn", z=z, causal=causal)


def found(record: AttentionRecord, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs that are more alike than chance, as (i, j), and heads with a twin."""
    by_chance = permuted_pairs(record, measure)
    assert by_chance is not None
    pairs, twins = discoveries(by_chance.p_pairs), discoveries(by_chance.p_nearest)
    return np.stack(ONCE, 1)[pairs], np.flatnonzero(twins)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("measure", [m for m in PAIR_MEASURES if m != "jensen_shannon"])
def test_of_unrelated_heads_few_draws_find_a_pair_or_a_twin(measure: str, causal: bool) -> None:
    if causal and PAIR_MEASURES[measure] == "z":
        return  # the mask is of weights
    draws = [found(unrelated(causal, seed=seed), measure) for seed in range(DRAWS)]
    for kind in (0, 1):
        numbers = [len(draw[kind]) for draw in draws]
        assert sum(n > 0 for n in numbers) <= MOST_FALSE, numbers


def test_the_edge_and_the_band_hold_the_shares_that_they_say() -> None:
    record = unrelated()
    values, band = head_similarity(record, "cka")[ONCE], untrained_band(record, "cka")
    inside = ((values >= band.low) & (values <= band.high)).float().mean()
    assert float(inside) == pytest.approx(HELD, abs=0.01)
    by_chance = permuted_pairs(record, "cka")
    assert (by_chance.pairs < by_chance.edge).mean() == pytest.approx((1 - HELD) / 2, abs=0.005)
    assert by_chance.edge == pytest.approx(1 - by_chance.band.high, abs=1e-6)
    assert len(by_chance.pairs) == 20 * len(ONCE[0]) and len(by_chance.p_nearest) == HEADS


def test_p_values_count_what_is_as_near_and_one_more() -> None:
    values = np.array([[0.05, 0.2, 0.5, np.nan], [0.1, 0.2, 0.2, 1], [0.2, 0.4, 0.1, 1]])
    assert p_values(values) == pytest.approx([1 / 7, 6 / 7, 1, np.nan], nan_ok=True)
    assert np.isnan(p_values(values[:, 3:])).all()


def test_a_pair_is_held_against_all_pairs_and_its_own_mean() -> None:
    record = unrelated()
    apart = [head_similarity(record, "hellinger")[ONCE].double().numpy()]
    true = METRICS["hellinger"].function
    keeps = replace(METRICS["hellinger"], function=lambda one: apart.append(true(one)) or apart[-1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(METRICS, "hellinger", keeps)
        by_chance = permuted_pairs(record, "hellinger")
    chance = np.stack([matrix[ONCE].double().numpy() for matrix in apart[2:]])
    mean = np.vstack([apart[0], chance]).mean(0)
    for pair in (0, 7, 100):
        near = (chance <= apart[0][pair]).sum()
        nearer = (chance - mean <= (apart[0] - mean)[pair]).sum()
        assert by_chance.p_pairs[pair] == pytest.approx((1 + max(near, nearer)) / (1 + chance.size))


@pytest.mark.parametrize("measure", ["hellinger", "cka"])
def test_too_few_tokens_tell_nothing(measure: str) -> None:
    assert permuted_pairs(unrelated(n=LEAST - 1), measure) is None
    assert permuted_pairs(unrelated(n=LEAST), measure) is not None


@pytest.mark.parametrize("causal", [False, True])
def test_weights_change_places_among_the_keys_that_a_row_sees(causal, monkeypatch) -> None:
    record, drawn = unrelated(causal), []
    true = METRICS["hellinger"].function
    keeps = replace(METRICS["hellinger"], function=lambda one: drawn.append(one) or true(one))
    monkeypatch.setitem(METRICS, "hellinger", keeps)
    permuted_pairs(record, "hellinger")
    first, *others = drawn
    assert torch.equal(first, record.pattern) and len(others) == 20
    for moved in others:
        assert torch.equal(moved.sort(-1).values, record.pattern.sort(-1).values)
        assert not (causal and moved.triu(1).any()) and not torch.equal(moved, record.pattern)


def test_random_matrices_are_nearly_at_right_angles() -> None:
    mean, band = diversity_band(5, 64, 11)
    # |cos| of Gaussian matrices has the mean of |N(0, 1 / (d_model d_head))|
    assert mean == pytest.approx(1 - np.sqrt(2 / (np.pi * 64 * 11)), abs=2e-3)
    draws = [
        float(diversity(torch.randn(5, 64, 11, generator=torch.Generator().manual_seed(seed))))
        for seed in range(1000, 1200)
    ]
    inside = np.mean([band.low <= draw <= band.high for draw in draws])
    assert 0.85 < inside <= 1.0


def test_as_distances_of_opposite_heads_is_0_for_correlation_alone() -> None:
    likeness = torch.tensor([[1.0, -1.0, 0.25], [-1.0, 1.0, -0.5], [0.25, -0.5, 1.0]])
    correlated = torch.tensor([[0.0, 0.0, 0.75], [0.0, 0.0, 0.5], [0.75, 0.5, 0.0]])
    aligned = torch.tensor([[0.0, 2.0, 0.75], [2.0, 0.0, 1.5], [0.75, 1.5, 0.0]])
    torch.testing.assert_close(as_distances(likeness, "correlation"), correlated)
    torch.testing.assert_close(as_distances(likeness, "cka"), aligned)
    assert as_distances(likeness, "hellinger") is likeness


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_rank_interval_holds_the_true_correlation_of_19_of_20_samples(rho):
    draw, n, inside = np.random.default_rng(5), 31, 0
    true = 6 / np.pi * np.arcsin(rho / 2)  # Spearman's of a normal distribution with Pearson's rho
    for _ in range(600):
        x, noise = draw.standard_normal((2, n))
        found = spearmanr(x, rho * x + np.sqrt(1 - rho**2) * noise).statistic
        low, high = rank_interval(float(found), n)
        inside += low <= true <= high
    assert 0.92 < inside / 600 < 0.98
