"""Baselines against definitions worked out by hand, and labels at and around their thresholds."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

import mha_viz as mv
from mha_viz.core.measure import measure, text_baselines
from mha_viz.core.metrics import LABELS, Baseline, baselines, head_labels, too_short
from mha_viz.core.metrics.baselines import offset_pattern, uniform_pattern
from mha_viz.core.metrics.chance import RARE, beyond_chance
from mha_viz.errors import ArgumentError
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
    found = baselines(empty(), ids=ids, is_special=special, causal=True)
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


def test_a_sink_is_not_long_range() -> None:
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
