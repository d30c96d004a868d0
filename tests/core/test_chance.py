"""The band of chance: heads that share nothing lie in it, heads that do the same do not."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mha_viz.core.chance import (
    HELD,
    LEAST,
    Band,
    diversity_band,
    permuted_band,
    untrained_band,
)
from mha_viz.core.measure import as_distances, head_similarity
from mha_viz.core.metrics.parameters import diversity
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.core.record import AttentionRecord
from tests.core.records import make

HEADS, N, D_HEAD = 24, 17, 7


def unrelated(causal: bool = False, n: int = N, seed: int = 3) -> AttentionRecord:
    """Heads drawn independently of each other."""
    dice = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(1, HEADS, n, n, generator=dice)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) & causal
    pattern = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    z = torch.randn(1, HEADS, n, D_HEAD, generator=dice)
    tokens = tuple(replace(make().tokens[0], id=i) for i in range(n))
    return AttentionRecord(pattern=pattern, tokens=tokens, model="drawn", z=z, causal=causal)


def pairs(record: AttentionRecord, measure: str) -> np.ndarray:
    apart = as_distances(head_similarity(record, measure), measure).numpy()
    return apart[np.triu_indices(len(apart), 1)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("measure", PAIR_MEASURES)
def test_few_unrelated_heads_are_beyond_it(measure: str, causal: bool) -> None:
    shares = []
    for seed in range(8):
        record = unrelated(causal, seed=seed)
        edge = permuted_band(record, measure).edge(measure)
        shares.append((pairs(record, measure) < edge).mean())
    assert np.mean(shares) < 0.08  # 0.025, or 0.05 where both signs count


@pytest.mark.parametrize("measure", [m for m in PAIR_MEASURES if m != "redundancy_textbook"])
def test_a_copy_is_beyond_it(measure: str) -> None:
    record = unrelated()
    pattern, z = record.pattern.clone(), record.kept("z").clone()
    pattern[0, 5] = pattern[0, 2]
    z[0, :] = z[0, :] * torch.tensor([9.0, 3, 1, 1, 1, 1, 1])  # few directions, as heads have
    z[0, 5] = z[0, 2]
    record = replace(record, pattern=pattern, z=z)
    band = permuted_band(record, measure)
    apart = as_distances(head_similarity(record, measure), measure)
    assert apart[2, 5] < band.edge(measure)


def test_it_holds_the_share_that_it_says() -> None:
    record = unrelated()
    band, apart = untrained_band(record, "cka"), head_similarity(record, "cka")
    values = apart[np.triu_indices(HEADS, 1)]
    inside = ((values >= band.low) & (values <= band.high)).float().mean()
    assert float(inside) == pytest.approx(HELD, abs=0.01)


def test_the_same_seed_gives_the_same_band() -> None:
    record = unrelated()
    assert permuted_band(record, "cka") == permuted_band(record, "cka", seed=0)
    assert permuted_band(record, "cka") != permuted_band(record, "cka", seed=1)


@pytest.mark.parametrize("measure", ["hellinger", "cka"])
def test_too_few_tokens_have_none(measure: str) -> None:
    assert permuted_band(unrelated(n=LEAST - 1), measure) is None
    assert permuted_band(unrelated(n=LEAST), measure) is not None


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


def test_the_edge_is_where_likeness_begins() -> None:
    assert Band(-0.6, 0.25).edge("cka") == 0.75
    assert Band(-0.6, 0.25).edge("correlation") == pytest.approx(0.4)
    assert Band(0.4, 0.9).edge("jensen_shannon") == 0.4


def test_as_distances_of_opposite_heads_is_0_for_correlation_alone() -> None:
    likeness = torch.tensor([[1.0, -1.0, 0.25], [-1.0, 1.0, -0.5], [0.25, -0.5, 1.0]])
    correlated = torch.tensor([[0.0, 0.0, 0.75], [0.0, 0.0, 0.5], [0.75, 0.5, 0.0]])
    aligned = torch.tensor([[0.0, 1.0, 0.75], [1.0, 0.0, 1.0], [0.75, 1.0, 0.0]])
    torch.testing.assert_close(as_distances(likeness, "correlation"), correlated)
    torch.testing.assert_close(as_distances(likeness, "cka"), aligned)
    assert as_distances(likeness, "hellinger") is likeness
