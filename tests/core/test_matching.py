"""Matched heads of two models: planted counterparts are found, unrelated heads match by chance."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

import mha_viz as mv
from mha_viz.core.compare.alignment import align, equal_places
from mha_viz.core.compare.matching import HeadMatches, match_heads
from mha_viz.core.metrics import METRICS
from mha_viz.core.names import MATCH_MEASURES
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import ArgumentError, NotKeptError
from tests.core import formulas
from tests.core.records import make, tokens_of

N, D_HEAD = 17, 7


def heads(layers: int, heads: int, seed: int, causal: bool = False, n: int = N) -> AttentionRecord:
    """Heads drawn independently of each other, some of them broad and some of them sharp."""
    dice = torch.Generator().manual_seed(seed)
    sharp = torch.linspace(0.3, 6, layers * heads).reshape(layers, heads, 1, 1)
    scores = sharp * torch.randn(layers, heads, n, n, generator=dice)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) & causal
    return make(
        pattern=scores.masked_fill(hidden, -torch.inf).softmax(-1),
        z=torch.randn(layers, heads, n, D_HEAD, generator=dice),
        tokens=tokens_of(*range(n)),
        causal=causal,
        query=None,
        key=None,
        value=None,
        W_O=(),
        scale=(),
    )


def pairs(found: HeadMatches) -> set[tuple[int, int]]:
    return set(zip(found.a.tolist(), found.b.tolist(), strict=True))


@pytest.mark.parametrize("measure", MATCH_MEASURES)
@pytest.mark.parametrize("turned", [False, True])
def test_match_heads_of_other_numbers_of_layers_and_heads_finds_those_planted(
    measure: str, turned: bool
) -> None:
    small, large = heads(2, 3, seed=3), heads(5, 7, seed=4)
    places = [(4, 6), (0, 2), (1, 1), (3, 0), (2, 5), (0, 0)]

    def plant(into: Tensor, of: Tensor) -> Tensor:
        into = into.clone()
        for place, head in zip(places, of.flatten(0, 1), strict=True):
            into[place] = head
        return into

    large = replace(large, pattern=plant(large.pattern, small.pattern), z=plant(large.z, small.z))
    found = match_heads(*(([large], [small]) if turned else ([small], [large])), measure)
    planted = [(i, 7 * layer + head) for i, (layer, head) in enumerate(places)]
    assert pairs(found) == {pair[::-1] if turned else pair for pair in planted}
    assert found.apart.shape == ((35, 6) if turned else (6, 35))
    assert found.a.tolist() == sorted(found.a) and found.beyond_chance.all()
    named = found.table()[["layer_b", "head_b"] if not turned else ["layer", "head"]]
    assert set(map(tuple, named.to_numpy().tolist())) == set(places)


@pytest.mark.parametrize("measure", MATCH_MEASURES)
def test_match_heads_of_unrelated_heads_is_at_chance_level(measure: str) -> None:
    """The mean of matched heads is one of those by chance, and hardly any match is found."""
    ranks, falsely = [], 0
    for seed in range(20):
        found = match_heads(
            [heads(2, 5, 2 * seed)], [heads(3, 7, 2 * seed + 1)], measure, seed=seed
        )
        assert len(found.a) == 10 and found.chance is not None
        ranks.append(float((found.chance.means < found.distance.mean()).mean()))
        falsely += bool(found.beyond_chance.any())
    assert 0.3 < np.mean(ranks) < 0.7 and min(ranks) < 0.3 and max(ranks) > 0.7
    assert falsely <= 4  # one draw of twenty, and of 20 at most 4 in 99 cases of 100


@pytest.mark.parametrize("measure", MATCH_MEASURES)
def test_match_heads_has_the_least_sum_of_all_matches(measure: str) -> None:
    found = match_heads([heads(1, 5, seed=6)], [heads(2, 3, seed=7)], measure)
    sums = {chosen: found.apart[range(5), chosen].sum() for chosen in permutations(range(6), 5)}
    assert tuple(found.b.tolist()) == min(sums, key=sums.__getitem__)
    assert found.distance.sum() == pytest.approx(min(sums.values()))


@pytest.mark.parametrize("measure", MATCH_MEASURES)
def test_match_heads_compares_the_rows_of_all_texts_together(measure: str) -> None:
    a, b = (
        [heads(2, 3, seed, n=n) for seed, n in of]
        for of in ([(8, 11), (9, 13)], [(10, 11), (11, 13)])
    )
    apart = match_heads(a, b, measure).apart
    for i in range(6):
        for j in range(6):
            if measure == "cka":
                one, two = (
                    torch.cat([record.z.flatten(0, 1)[head] for record in side]).double().numpy()
                    for side, head in ((a, i), (b, j))
                )
                expected = 1 - max(0.0, formulas.cka(one, two))
            else:
                squares = [
                    formulas.hellinger(
                        *(side.pattern.flatten(0, 1)[head].double().numpy() for side, head in both)
                    )
                    ** 2
                    for both in (((one, i), (two, j)) for one, two in zip(a, b, strict=True))
                ]
                expected = np.sqrt((11 * squares[0] + 13 * squares[1]) / 24)
            assert apart[i, j] == pytest.approx(expected, abs=1e-5)


def test_match_heads_of_other_tokens_compares_words() -> None:
    text = "The kings unquestionably smiled."
    a, b = (mv.load(name).trace(text) for name in ("tiny-bert", "tiny-gpt2"))
    assert a.labels != b.labels
    one, two = a.merge_words(), b.merge_words()
    common = equal_places(
        one.labels, two.labels, align(one.labels, two.labels, ignore_case=True), ignore_case=True
    )
    found = match_heads([a], [b])
    assert found.n_rows == len(common) == 5  # without [CLS] and [SEP]
    assert len({found, match_heads([a], [b])}) == 2  # matches are hashable, and equal by identity

    def row(record: AttentionRecord, head: int, query: int, side: int) -> np.ndarray:
        weights = record.pattern.flatten(0, 1)[head, query].double().numpy()
        within = weights[[place[side] for place in common]]
        return np.append(within, max(0.0, 1 - within.sum()))

    for i, j in ((3, 17), (29, 5)):
        affinity = [np.sqrt(row(one, i, p, 0) * row(two, j, q, 1)).sum() for p, q in common]
        assert found.apart[i, j] == pytest.approx(np.sqrt(1 - np.mean(affinity)), abs=1e-3)


def test_match_heads_leaves_out_a_head_without_a_distance() -> None:
    record = heads(2, 3, seed=14)
    z = record.z.clone()
    z[1, 1] = 2.0  # the same for every token
    found = match_heads([replace(record, z=z)], [record], "cka")
    assert found.a.tolist() == found.b.tolist() == [0, 1, 2, 3, 5]
    assert np.isnan(found.apart[4]).all() and np.isfinite(found.table().p).all()


def test_match_heads_of_a_few_tokens_knows_no_chance() -> None:
    record = heads(2, 3, seed=16, n=3)
    found = match_heads([record], [record])
    assert (
        found.chance is None and not found.beyond_chance.any() and np.isnan(found.table().p).all()
    )
    assert found.b.tolist() == list(range(6))


def test_match_heads_of_a_long_text_thins_out_queries(monkeypatch) -> None:
    record = heads(2, 3, seed=17)
    every = match_heads([record], [record])
    monkeypatch.setattr("mha_viz.core.compare.matching.MOST_WEIGHTS", 12 * N * N // 3)
    some = match_heads([record], [record])
    assert (every.n_rows, some.n_rows) == (N, 6)
    expected = METRICS["hellinger"].function(record.pattern[:, :, ::3]).numpy()
    assert some.apart == pytest.approx(expected, abs=1e-6)


def test_match_heads_refuses_what_it_cannot_compare() -> None:
    record = heads(2, 3, seed=18)
    with pytest.raises(ArgumentError, match="hellinger, cka"):
        match_heads([record], [record], "redundancy")
    with pytest.raises(ArgumentError, match="got 1 and 2"):
        match_heads([record], [record] * 2)
    with pytest.raises(ArgumentError, match="got 0 and 0"):
        match_heads([], [])
    other = replace(record, tokens=tuple(replace(t, text=f"u{t.text}") for t in record.tokens))
    with pytest.raises(ArgumentError, match="no token"):
        match_heads([record], [other])
    with pytest.raises(NotKeptError):
        match_heads([record], [replace(record, z=None)], "cka")
