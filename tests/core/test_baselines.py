"""Baselines by hand, labels around their thresholds, and the chances of pairs of heads."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import mha_viz as mv
from mha_viz.core.compare.chance import (
    HELD,
    LEAST,
    diversity_band,
    p_values,
    permuted_pairs,
    untrained_band,
)
from mha_viz.core.measure import as_distances, head_similarity, measure, text_baselines
from mha_viz.core.metrics import (
    LABELS,
    METRICS,
    Baseline,
    TokenFacts,
    baselines,
    head_labels,
    too_short,
)
from mha_viz.core.metrics.baselines import offset_pattern, uniform_pattern
from mha_viz.core.metrics.chance import RARE, beyond_chance, discoveries, rank_interval
from mha_viz.core.metrics.parameters import diversity
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import ArgumentError
from tests.core.records import make
from tests.making.comparing import near

LAYERS, HEADS, N, KEYS, D_HEAD, D_MODEL = 2, 3, 11, 13, 5, 7


def empty(query: int = N, key: int = N) -> torch.Tensor:
    return torch.zeros(LAYERS, HEADS, query, key)


def test_a_fixed_offset_looks_at_one_key_and_stays_inside() -> None:
    places = offset_pattern(N, 3, 2)[0, 0].argmax(-1)
    assert places.tolist() == [2] * N
    assert offset_pattern(5, 5, -1)[0, 0].argmax(-1).tolist() == [0, 0, 1, 2, 3]
    with pytest.raises(ArgumentError, match="at least one query"):
        offset_pattern(0, 3, 1)


def test_what_heads_that_learned_nothing_score() -> None:
    ids = torch.arange(N) % 7
    special = torch.arange(N) >= N - 2
    found = baselines(empty(), TokenFacts(ids, special, causal=True))
    harmonic = sum(1 / (q + 1) for q in range(N)) / N
    entropy = sum(math.log(q + 1) for q in range(N)) / N
    assert found["first_token"].uniform == near(harmonic)
    assert found["entropy"].uniform == near(entropy)
    assert found["entropy"].offset == 0.0
    assert found["previous_token"].offset == 1.0
    assert found["distance"].offset == near((N - 1) / N)
    assert found["normalized_entropy"].uniform == near((N - 1) / N)  # the first sees one
    assert found["previous_token"].random is None


def test_random_heads_give_a_mean_and_a_range() -> None:
    scores = torch.tensor([[0.2, 0.4, float("nan")], [0.1, 0.3, 0.5]])
    found = baselines(empty(), random={"self_token": scores, "variance": scores * math.nan})
    assert found["self_token"].random == near(0.3)
    assert (found["self_token"].random_low, found["self_token"].random_high) == near((0.1, 0.5))
    assert "variance" not in found


@pytest.mark.parametrize("n_kv_heads", [HEADS, 1])
def test_outputs_have_baselines_where_the_values_are_known(n_kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(3)
    value = torch.randn(LAYERS, n_kv_heads, KEYS, D_HEAD, generator=generator)
    W_O = tuple(torch.randn(HEADS, D_HEAD, D_MODEL, generator=generator) for _ in range(LAYERS))
    found = baselines(empty(N, KEYS), value=value, W_O=W_O)
    outputs = torch.stack([value[i].mean(-2)[:, None] @ W_O[i] for i in range(LAYERS)])
    want = outputs.norm(dim=-1).mean()
    assert found["output_norm"].uniform == near(float(want))
    for place in itertools.product(range(LAYERS), range(HEADS)):  # its own, not the mean of all
        own = float(outputs[place].norm(dim=-1).mean())
        assert found["output_norm"].at(*place).uniform == near(own)
    assert found["variance"].uniform == near(0.0)  # every row the same mean
    assert "output_norm" not in baselines(empty(N, KEYS))


def scores_of(**values: float) -> dict[str, torch.Tensor]:
    """One head with these scores among others with none, at L1 H2."""
    table = {key: torch.zeros(LAYERS, HEADS) for key in values}
    for key, value in values.items():
        table[key][1, 2] = value
    return table


def labels(scores: dict[str, torch.Tensor], **given: Baseline) -> list[str]:
    return [found.label.key for found in head_labels(scores, given)[1][2]]


@pytest.mark.parametrize(
    "key", ["previous_token", "next_token", "self", "first_token", "separator", "duplicate"]
)
def test_half_of_the_weight_earns_a_label_if_it_beats_the_baseline(key: str) -> None:
    metric = LABELS[key].metric
    low = {metric: Baseline(uniform=0.1, random_high=0.2)}
    assert labels(scores_of(**{metric: 0.5}), **low) == [key]
    assert labels(scores_of(**{metric: 0.4999}), **low) == []
    high = {metric: Baseline(uniform=0.1, random_high=0.7)}
    assert labels(scores_of(**{metric: 0.6}), **high) == []
    (found,) = head_labels(scores_of(**{metric: 0.8}), high)[1][2]
    assert (found.score, found.threshold, found.baseline) == near((0.8, 0.5, 0.7))
    assert found.baseline_name == "best random head" and "0.8" in found.why
    assert head_labels(scores_of(**{metric: 0.8}), high)[0][0] == ()


def test_without_any_baseline_there_is_no_label_but_for_induction() -> None:
    assert labels(scores_of(previous_token=0.9)) == []
    assert labels(scores_of(induction=0.9)) == ["induction"]
    assert labels(scores_of(induction=0.9), induction=Baseline(random_high=0.95)) == []


def test_broad_is_a_finding_only_where_no_untrained_head_is() -> None:
    def broad(score: float, **numbers: float) -> bool:
        given = {"normalized_entropy": Baseline(**numbers)}
        return labels(scores_of(normalized_entropy=score), **given) == ["broad"]

    assert broad(0.9, uniform=1.0, random_high=0.6) and not broad(0.8, uniform=1.0, random_high=0.6)
    assert not broad(0.999, uniform=1.0, random_high=0.99)
    assert not broad(0.999, uniform=1.0)
    # six tokens, of which the first sees itself alone: uniform attention itself has no more
    assert broad(0.8, uniform=5 / 6, random_high=0.5)


def test_few_rows_need_a_higher_score_and_fewer_are_too_few() -> None:
    def given(n_rows: float) -> dict[str, Baseline]:
        return {"self_token": Baseline(uniform=0.2, n_rows=float(n_rows))}

    def threshold(n_rows: float) -> float | None:
        found = head_labels(scores_of(self_token=1.0), given(n_rows))[1][2]
        return found[0].threshold if found else None

    assert [threshold(n) for n in (1, 3)] == [None, None]
    assert threshold(4) > threshold(8) > threshold(12) > threshold(40) == 0.5
    assert labels(scores_of(self_token=threshold(8) - 0.01), **given(8)) == []
    assert [label.key for label in too_short(given(3), 0)] == ["self"]
    assert too_short(given(8), 0) == ()


@pytest.mark.parametrize(("n", "causal"), [(4, False), (7, False), (7, True), (16, True)])
def test_what_lies_beyond_chance_by_drawing_it(n: int, causal: bool) -> None:
    """Heads that pick a key at random in each row, against the bound on how much they score."""
    chances = uniform_pattern(n, n, causal=causal)[0, 0]
    drawn = torch.multinomial(
        chances, 20_000, replacement=True, generator=torch.Generator().manual_seed(3)
    )
    for hits in (drawn == torch.arange(n)[:, None], drawn == 0):  # itself, the first
        scores = hits.double().mean(0)
        least = beyond_chance(n, float(scores.mean()))
        if least is None:
            assert (scores == 1).double().mean() > RARE / 20
        else:
            assert (scores >= least).double().mean() <= RARE


def test_a_label_of_distance_beats_the_untrained_copy_by_as_much() -> None:
    def found(score: float, **random: float) -> list[str]:
        return labels(scores_of(distance=score), distance=Baseline(uniform=8.0, **random))

    assert found(3.9) == found(3.9, random_low=7.9, random_high=8.1) == ["local"]
    assert found(3.9, random_low=4.0) == [] and found(1.9, random_low=4.0) == ["local"]
    assert found(12.1, random_high=8.1) == [] and found(12.2, random_high=8.1) == ["long_range"]


def test_near_and_far_are_multiples_of_what_uniform_attention_gives() -> None:
    given = {"distance": Baseline(uniform=8.0, random_low=8.0, random_high=8.0)}
    scores = {"distance": torch.tensor([[4.0, 4.1, 11.9], [12.0, 8.0, 1.0]])}
    found = [[[f.label.key for f in head] for head in row] for row in head_labels(scores, given)]
    assert found == [[["local"], [], []], [["long_range"], [], ["local"]]]
    short = {"distance": Baseline(uniform=2.9)}
    assert all(head == () for row in head_labels(scores, short) for head in row)
    given = {"distance": Baseline(uniform=4.0), "first_token": Baseline(uniform=0.1)}
    assert labels(scores_of(distance=9.0, first_token=0.9), **given) == ["first_token"]
    assert labels(scores_of(distance=9.0, first_token=0.2), **given) == ["long_range"]


def test_of_words_they_are_those_of_tokens_after_merging() -> None:
    record = mv.load("tiny-gpt2").trace("The unbelievable antidisestablishmentarianism sat")
    words = record.merge_words()
    assert len(words.tokens) < len(record.tokens) == sum(token.parts for token in words.tokens)
    for name, weights in (
        ("uniform", uniform_pattern(*record.pattern.shape[-2:], causal=True)),
        ("offset", offset_pattern(*record.pattern.shape[-2:], -1)),
    ):
        heads = weights.expand_as(record.pattern)
        want = measure(replace(record, pattern=heads.clone(), z=None).merge_words())
        got = text_baselines(words)
        for key, values in want.items():
            assert getattr(got[key], name) == near(float(values.mean())), key


N_HEADS, TOKENS, WIDTH = 19, 13, 7
DRAWS = 30
# One draw of twenty finds something by chance: of 30, at most 5 in 99 cases of 100.
MOST_FALSE = 5
SCALES = torch.tensor([9.0, 3, 1, 1, 1, 1, 1])
ONCE = np.triu_indices(N_HEADS, 1)


def unrelated(causal: bool = False, n: int = TOKENS, seed: int = 3) -> AttentionRecord:
    """Heads drawn independently of each other, some of them broad and some of them sharp."""
    dice = torch.Generator().manual_seed(seed)
    sharp = torch.linspace(0.3, 6, N_HEADS)[:, None, None]
    scores = sharp * torch.randn(1, N_HEADS, n, n, generator=dice)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) & causal
    pattern = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    z = torch.randn(1, N_HEADS, n, WIDTH, generator=dice)
    # Few directions each, as heads have, and each its own.
    z *= torch.stack([SCALES[torch.randperm(WIDTH, generator=dice)] for _ in range(N_HEADS)])[
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
    assert len(by_chance.pairs) == 20 * len(ONCE[0]) and len(by_chance.p_nearest) == N_HEADS


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
    # |cos| of Gaussian matrices has the mean of |TOKENS(0, 1 / (d_model d_head))|
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
