"""Scores with keys rotated: the metric itself on a pattern that was rotated by hand."""

import pytest
import torch

from mha_viz.core.metrics import TokenFacts, head_table
from mha_viz.core.metrics import rotation as rotating
from mha_viz.core.metrics.pairs import AllRows
from mha_viz.core.metrics.preference import N_ORDERS, key_preferences, other_orders
from mha_viz.core.metrics.rotation import (
    N_ROTATIONS,
    RotatedScores,
    beyond_orders,
    least_beyond_chance,
)
from tests.core.patterns import random_pattern

LINEAR = ("previous_token", "next_token", "self_token", "first_token", "separator_token")
LINEAR += ("duplicate_token", "distance")
L, H, N = 2, 3, 7


def masks(name: str) -> torch.Tensor:
    whole = torch.ones(L, N, N, dtype=torch.bool)
    if name == "causal":
        return whole.tril()
    if name == "window":
        return torch.stack([whole[0].tril(), whole[0].tril().triu(-2)])
    return whole


def scores(pattern: torch.Tensor, seen: torch.Tensor, **about: object) -> RotatedScores:
    masks = [([0, 1], seen[0])] if torch.equal(*seen) else [([0], seen[0]), ([1], seen[1])]
    rows = AllRows.of(pattern)
    return RotatedScores(AllRows(N, 3, rows.rows), masks, TokenFacts(**about))


@pytest.fixture(autouse=True)
def some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotating, "_AT_ONCE", 3 * N_ROTATIONS * N)


def by_hand(pattern: torch.Tensor, seen: torch.Tensor, rotation: int) -> torch.Tensor:
    rotated = torch.zeros_like(pattern)
    for layer, query in torch.cartesian_prod(torch.arange(L), torch.arange(N)).tolist():
        keys = seen[layer, query].nonzero()[:, 0].tolist()
        step = 1 + int((rotation + 0.5) / N_ROTATIONS * (len(keys) - 1))
        for place, key in enumerate(keys):
            to = keys[(place + step) % len(keys)]
            rotated[layer, :, query, to] += pattern[layer, :, query, key]
    return rotated


@pytest.mark.parametrize("mask", ["all", "causal", "window"])
@pytest.mark.parametrize("metric", LINEAR)
def test_scores_are_the_metric_of_a_rotated_pattern(metric, mask):
    seen = masks(mask)
    pattern = random_pattern(N) * seen[:, None]
    pattern /= pattern.sum(-1, keepdim=True)
    pattern[1, 2] = 0  # a head that attends to nothing
    about = {"ids": torch.arange(N) % 4, "is_special": torch.arange(N) % 5 == 1}
    everyone = torch.ones(L, H, dtype=torch.bool)
    found = scores(pattern, seen, **about)(everyone, metric)
    assert found.shape == (N_ROTATIONS, L, H)
    for rotation in range(N_ROTATIONS):
        rotated = by_hand(pattern, seen, rotation)
        expected = head_table(rotated, TokenFacts(**about, allowed=seen))[metric]
        torch.testing.assert_close(found[rotation], expected.to(found), equal_nan=True)


def test_heads_that_cannot_reach_the_least_are_left_out():
    seen, everyone = masks("all"), torch.ones(L, H, dtype=torch.bool)
    pattern = random_pattern(N)
    pattern[0, 1] = 1 / N  # far from any key
    every = scores(pattern, seen)(everyone, "first_token")
    least = float(every.amax(0).median())
    assert least > 1 / N
    some = scores(pattern, seen)(everyone, "first_token", least)
    left = some.isnan().all(0)
    assert (every[:, left] < least).all() and not left.all()
    assert left[0, 1]
    torch.testing.assert_close(some[:, ~left], every[:, ~left])
    assert scores(pattern, seen)(~everyone, "first_token").isnan().all()


def test_least_beyond_chance_by_hand():
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6])
    none = torch.tensor([])
    assert least_beyond_chance(scores, none) == pytest.approx(0.6)  # 1 of 21 rotations, by 1 head
    assert least_beyond_chance(scores[:1], none) == pytest.approx(0.9)
    # at 0.7: (2 + 1) / 21 / 3 = 0.048; at 0.6: (4 + 1) / 21 / 4 = 0.06
    by_chance = torch.tensor([0.95, 0.7, 0.65, 0.6, 0.5])
    assert least_beyond_chance(scores, by_chance) == pytest.approx(0.7)
    assert least_beyond_chance(scores, torch.full((30,), 1.0)) is None
    # P(N >= 1) = 0.046 and P(N >= 2) = 0.0011 of Poisson's with the mean 1 / 21
    assert least_beyond_chance(scores[:1], none, most=0.04) is None
    assert least_beyond_chance(scores[:2], none, most=0.0012) == pytest.approx(0.8)
    assert least_beyond_chance(scores[:2], none, most=0.001) is None


@pytest.mark.parametrize("mask", ["all", "causal", "window"])
def test_heads_that_prefer_keys_score_in_each_order_as_their_pattern_does(mask, monkeypatch):
    seen = masks(mask)
    preferences = torch.randn(L, H, N)

    def patterns(preferences: torch.Tensor) -> torch.Tensor:
        rows = preferences[:, :, None].expand(L, H, N, N)
        return rows.masked_fill(~seen[:, None], -torch.inf).softmax(-1)

    about = {"ids": torch.arange(N) % 4, "is_special": torch.arange(N) % 5 == 1}
    null, everyone = scores(patterns(preferences), seen, **about), torch.ones(L, H).bool()
    expected = preferences - preferences.mean(-1, keepdim=True)
    for layer in range(L):
        fitted = key_preferences(patterns(preferences)[layer], seen[layer])
        torch.testing.assert_close(fitted, expected[layer], atol=1e-4, rtol=0)
    orders = other_orders(expected.flatten(0, 1)).unflatten(1, (L, H))
    for metric in ("first_token", "separator_token", "self_token", "distance"):
        found = null.in_other_orders(everyone, metric)
        assert found.shape == (N_ORDERS, L, H)
        for order, preferred in enumerate(orders):
            table = head_table(patterns(preferred), TokenFacts(**about, allowed=seen))
            torch.testing.assert_close(found[order], table[metric], atol=1e-4, rtol=1e-4)
    assert null.in_other_orders(~everyone, "distance").isnan().all()
    monkeypatch.setattr(rotating, "_MOST_ROWS", 4)  # the first row is one of them
    some = scores(patterns(preferences), seen).in_other_orders(everyone, "self_token")
    assert some.isfinite().all()


def test_more_heads_than_any_order_gives_and_than_chance_are_beyond_them():
    by_order = torch.tensor([2, 0, 0, 0])  # 0.5 on average
    assert beyond_orders(5, by_order, 0.00018) and not beyond_orders(5, by_order, 0.00017)
    assert not beyond_orders(2, by_order, 1.0) and beyond_orders(3, by_order, 1.0)
    assert beyond_orders(1, torch.zeros(4, dtype=int), 0.001)
