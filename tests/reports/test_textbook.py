"""Both sides of every statement of textbooks, against numpy, and the verdicts."""

import itertools
import math

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.metrics import joint_information
from mha_viz.core.metrics.joint_information import sampled_information
from mha_viz.interventions.robustness import Robustness
from mha_viz.reports import textbook_sides
from mha_viz.reports.textbook import (
    BY_KEY,
    FAILS,
    HOLDS,
    LITTLE,
    OPEN,
    UNDEFINED,
    Sides,
    judge,
)
from tests.making.comparing import near

TEXT = "The old dog slept while the young cat watched the old dog."


def pattern(layers=1, heads=3, queries=4, keys=4, seed=0, sharp=2.0):
    random = torch.Generator().manual_seed(seed)
    return (sharp * torch.randn(layers, heads, queries, keys, generator=random)).softmax(-1)


def information_by_sums(A):
    """I(q; k_1 ... k_H) by going through all key^H places; A is (head, query, key) in numpy."""
    n_heads, n_query, n_key = A.shape
    total = 0.0
    for keys in itertools.product(range(n_key), repeat=n_heads):
        likelihood = np.prod([A[i, :, k] for i, k in enumerate(keys)], axis=0)
        both = likelihood / n_query
        mean = both.sum()
        total += float((both * np.log(likelihood / mean)).sum())
    return total


def word(key, low, right, high=None, met=None, sampled=None, scale=None):
    given = (low, low if high is None else high, right, scale, met)
    low, high, right, scale, met = (None if x is None else torch.tensor([x]) for x in given)
    return judge(BY_KEY[key], Sides(low, high, right, sampled, scale, met))[0]


# -- verdicts --------------------------------------------------------------------------------------


def test_verdicts_keep_to_relation_and_tolerance():
    assert word("orthogonal", 0.0007, 0.0, scale=0.0078).word == HOLDS
    assert word("orthogonal", 0.0078, 0.0, scale=0.0078).word == FAILS  # chance, of wide models
    assert word("norm", 94.0, 100.0).word == HOLDS
    assert word("norm", 89.0, 100.0).word == word("norm", 111.0, 100.0).word == FAILS
    assert word("variance", 2.0, 2.0).word == HOLDS
    assert word("variance", 2.01, 2.0).word == FAILS
    assert word("best-head", 0.5, 0.6, high=2.0).word == OPEN
    assert word("diversity", 0.99, 0.99).word == HOLDS
    assert word("diversity", 0.985, 0.99).word == FAILS
    assert word("direct-sum", 8.0, 8.0, met=False).word == FAILS
    assert word("norm", math.nan, 1.0).word == word("norm", 1.0, math.nan).word == UNDEFINED


def test_draws_decide_only_where_bounds_do_not():
    interval = (torch.tensor([1.0]), torch.tensor([1.05]))
    assert word("redundancy", 0.5, 1.0, high=2.0) == (OPEN, True)
    assert word("redundancy", 0.5, 1.0, high=2.0, sampled=interval) == (HOLDS, False)
    assert word("redundancy", 0.5, 0.8, high=2.0, sampled=interval) == (FAILS, False)
    assert word("redundancy", 0.5, 0.2, high=2.0, sampled=interval) == (FAILS, True)
    wide = (torch.tensor([0.6]), torch.tensor([1.2]))
    assert word("redundancy", 0.5, 1.0, high=2.0, sampled=wide) == (OPEN, False)


INFORMATION = ("capacity", "given-query", "redundancy")


@pytest.mark.parametrize("key", INFORMATION)
def test_judge_sums_of_information_by_share_and_say_too_little_below_the_floor(key):
    assert word(key, 1.9, 2.0).word == HOLDS
    assert word(key, 1.7, 2.0).word == FAILS
    assert word(key, 0.02, 0.03).word == word(key, 0.02, 0.02).word == LITTLE
    assert word(key, 0.02, 0.3).word == FAILS  # one side says something
    assert word(key, 0.02, -0.3).word == FAILS
    assert word(key, 0.02, 0.05, high=0.4) == (OPEN, True)
    drawn = (torch.tensor([0.03]), torch.tensor([0.06]))
    assert word(key, 0.02, 0.05, high=0.4, sampled=drawn) == (LITTLE, False)


# -- weights ---------------------------------------------------------------------------------------


def test_the_same_head_twice_breaks_all_three():
    head = torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(1))
    sides = textbook_sides.of_weights([head.repeat(2, 1, 1)])
    assert float(sides["orthogonal"].left_side) == near(1.0)
    assert float(sides["direct-sum"].left_side) == 4.0
    assert float(sides["direct-sum"].more["sum of the heads’ dimensions"]) == 8.0
    assert float(sides["diversity"].left_side) == near(0.0)
    assert [judge(BY_KEY[key], sides[key])[0].word for key in sides] == [FAILS] * 3


def test_diversity_of_random_matrices_misses_its_lower_end_once_in_forty_layers():
    """Right is what 97.5 % of such layers exceed; more alike than that is no chance."""
    random = torch.Generator().manual_seed(0)
    layers = list(torch.randn(600, 7, 31, 11, generator=random))
    sides = textbook_sides.of_weights(layers)["diversity"]
    assert sides.left_side.mean().item() == pytest.approx(
        sides.more["mean of random matrices"][0].item(), abs=1e-3
    )
    held = [verdict.word for verdict in judge(BY_KEY["diversity"], sides)].count(HOLDS)
    assert 0.95 * 600 < held < 0.995 * 600
    shared = 0.5 * torch.randn(1, 31, 11, generator=random)  # a direction that all heads share
    sides = textbook_sides.of_weights([layer + shared for layer in layers[:3]])["diversity"]
    assert [verdict.word for verdict in judge(BY_KEY["diversity"], sides)] == [FAILS] * 3


def test_rank_agrees_with_numpy_on_the_shipped_weights():
    model = mv.load("tiny-bert")
    layers = [layer.mT for layer in model.head_weights("W_O")]
    sides = textbook_sides.of_weights(layers)["direct-sum"]
    for layer, weights in enumerate(layers):
        stacked = np.concatenate([head.numpy() for head in weights], axis=1)
        assert float(sides.left_side[layer]) == np.linalg.matrix_rank(stacked)


# -- outputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_norm_and_variance_are_those_of_the_summed_outputs(name):
    record = mv.load(name).trace(TEXT)
    sides = textbook_sides.of_outputs(record.z, record.W_O)
    outputs = record.head_output.double().numpy()
    total = outputs.sum(1)
    norm = (total**2).sum(-1).mean(-1)
    np.testing.assert_allclose(sides["norm"].left_side, norm, rtol=1e-4)
    np.testing.assert_allclose(sides["variance"].left_side, total.var(1).sum(-1), rtol=1e-4)
    np.testing.assert_allclose(sides["variance"].right_side, outputs.var(2).sum((1, 2)), rtol=1e-4)
    # Why the statement holds or fails: its sides differ by all covariances, each twice.
    centred = outputs - outputs.mean(2, keepdims=True)
    gram = np.einsum("liqd,ljqd->lij", centred, centred) / centred.shape[2]
    twice = gram.sum((1, 2)) - gram.diagonal(axis1=1, axis2=2).sum(-1)
    differ = (sides["variance"].left_side - sides["variance"].right_side).double()
    np.testing.assert_allclose(differ, twice, rtol=1e-3, atol=1e-4)


# -- information -----------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
@pytest.mark.parametrize("sharp", [0.5, 2.0, 5.0])
def test_bounds_and_draws_hold_the_joint_information(heads, sharp):
    A = pattern(heads=heads, sharp=sharp, seed=heads)
    joint = information_by_sums(A[0].double().numpy())
    sides = textbook_sides.of_pattern(A, n_draws=4_000)
    for key in ("best-head", *INFORMATION):
        assert float(sides[key].low) - 1e-5 <= joint <= float(sides[key].high) + 1e-5
    low, high = sampled_information(A, n_draws=4_000)
    half = float(high - low) / 2
    assert abs(float(low + high) / 2 - joint) < 2 * half + 1e-5  # four standard errors
    if heads <= 2:  # the pair is known exactly
        assert float(sides["redundancy"].low) == near(joint)
        expected = LITTLE if joint < BY_KEY["capacity"].least else HOLDS
        assert judge(BY_KEY["redundancy"], sides["redundancy"])[0] == (expected, True)


def test_the_whole_is_the_sum_less_the_total_correlation_but_not_less_the_pairs():
    A = (0.9 * torch.eye(4) + 0.025).expand(1, 3, 4, 4)  # three that share a lot
    p = A[0].double().numpy()
    joint = np.einsum("qa,qb,qc->abc", *p) / 4
    entropy = lambda x: float(-(x[x > 0] * np.log(x[x > 0])).sum())  # noqa: E731
    correlation = sum(entropy(p[i].mean(0)) for i in range(3)) - entropy(joint)
    sides = textbook_sides.of_pattern(A)["redundancy"]
    total = float(sides.more["sum of all heads"])
    assert total - correlation == near(information_by_sums(p))
    pairs = sum(
        entropy(p[i].mean(0)) + entropy(p[j].mean(0)) - entropy(p[i].T @ p[j] / 4)
        for i, j in itertools.combinations(range(3), 2)
    )
    assert float(sides.right_side) == near(total - pairs)
    assert abs(float(sides.right_side) - information_by_sums(p)) > 0.1
    assert judge(BY_KEY["redundancy"], sides)[0].word == FAILS


def test_given_the_query_heads_share_nothing_so_the_textbook_claims_whole_is_sum():
    A = 5 * pattern(heads=3, seed=4)
    p = A[0].double().softmax(-1).numpy()
    given = np.einsum("qa,qb,qc->qabc", *p)  # the keys of all heads, for each query
    entropy = lambda x, axes: -(x * np.log(x)).sum(axes).mean()  # noqa: E731
    shared = sum(entropy(p[i], -1) for i in range(3)) - entropy(given, (1, 2, 3))
    assert shared == pytest.approx(0.0, abs=1e-12)
    sides = textbook_sides.of_pattern(torch.from_numpy(p)[None])["given-query"]
    each = [information_by_sums(p[[i]]) for i in range(3)]
    assert float(sides.right_side) == near(sum(each) - shared)


def test_capacity_below_ln_n_is_no_sum_where_heads_share():
    """Two heads that know the same bit: 2 ln 2 added up, within ln 7, but ln 2 together."""
    bit = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    A = torch.nn.functional.one_hot(bit, 7).float().expand(1, 2, 7, 7)
    sides = textbook_sides.of_pattern(A)["capacity"]
    one = information_by_sums(A[0, :1].numpy().clip(1e-30))
    assert float(sides.left_side) == pytest.approx(one, abs=1e-5)
    assert float(sides.right_side) == pytest.approx(2 * one, abs=1e-5)
    assert float(sides.right_side) < math.log(7)
    assert judge(BY_KEY["capacity"], sides)[0] == (FAILS, True)


def test_a_query_that_looks_at_nothing_and_texts_that_are_too_long(monkeypatch):
    A = pattern(layers=2)
    A[1, 0, 2] = 0.0
    sides = textbook_sides.of_pattern(A)
    for key in ("best-head", "redundancy"):
        assert judge(BY_KEY[key], sides[key])[1].word == UNDEFINED
    monkeypatch.setattr(joint_information, "MAX_PRODUCTS", 10)
    sides = textbook_sides.of_pattern(pattern())
    assert judge(BY_KEY["redundancy"], sides["redundancy"])[0].word == UNDEFINED
    assert judge(BY_KEY["best-head"], sides["best-head"])[0].word == HOLDS


# -- loss ------------------------------------------------------------------------------------------


def test_failure_is_the_worst_head_of_each_layer():
    found = Robustness(
        loss=torch.zeros(1),
        heads=torch.tensor([[0, 0], [0, 1], [2, 0]]),
        change=torch.tensor([[0.02], [-0.5], [0.004]]),
        pairs=torch.zeros(1, 2, 2).long(),
        pair_change=torch.zeros(1, 1),
        apart=torch.zeros(1, 1),
        tolerance=0.01,
    )
    sides = textbook_sides.of_loss(found, 3)["failure"]
    assert [v.word for v in judge(BY_KEY["failure"], sides)] == [FAILS, UNDEFINED, HOLDS]
    assert sides.more[textbook_sides.HARMED_SHARE].tolist()[::2] == [0.5, 0.0]


def test_random_subspaces_share_d_head_of_d_model_and_break_the_orthogonal_statement():
    overlap = textbook_sides.of_weights([torch.randn(12, 96, 8)])["orthogonal"]
    assert float(overlap.left_side) == pytest.approx(8 / 96, rel=0.1)
    assert float(overlap.more["random subspaces"]) == pytest.approx(8 / 96)
    assert judge(BY_KEY["orthogonal"], overlap)[0].word == FAILS
