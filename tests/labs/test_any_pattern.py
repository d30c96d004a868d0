"""Lab 7: what rank allows and forbids, by construction, by numpy, and by training."""

import math

import numpy as np
import pytest
import torch

from mha_viz.learn.labs.any_pattern import numbers as any_pattern
from mha_viz.learn.labs.any_pattern import patterns
from mha_viz.learn.labs.any_pattern.patterns import pattern_of, preset
from tests.making.comparing import close, near


def softmax(scores):
    """Recount by numpy."""
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def kl(target, pattern):
    safe = np.where(target > 0, target, 1.0)
    return (target * (np.log(safe) - np.log(np.maximum(pattern, 1e-300)))).sum(-1).mean()


@pytest.fixture(scope="module")
def random_fit():
    return any_pattern.fit(pattern_of(preset("random", 8, seed=5)), seed=1)


@pytest.fixture(scope="module")
def diagonal_fit():
    return any_pattern.fit(pattern_of(preset("diagonal", 12)))


def test_numbers_of_a_fit_are_those_of_its_heads(random_fit):
    target = random_fit.target.double().numpy()
    for width in range(8):
        query, key = (part[width].double().numpy() for part in (random_fit.query, random_fit.key))
        assert not query[:, width + 1 :].any() and not key[:, width + 1 :].any()  # d_k columns
        scores = query @ key.T
        pattern = softmax(scores)
        assert np.linalg.matrix_rank(scores, tol=1e-4) <= width + 1
        close(random_fit.pattern[width], pattern)
        assert float(random_fit.kl[width]) == near(kl(target, pattern))
        middle = (target + pattern) / 2
        divergence = (kl(target, middle) + kl(pattern, middle)) / 2
        assert float(random_fit.jensen_shannon[width]) == near(divergence)
        assert float(random_fit.largest[width]) == near(np.abs(pattern - target).max())


@pytest.mark.parametrize("name", ["diagonal", "random", "previous"])
def test_equal_tokens_look_and_are_looked_at_alike_and_no_head_passes_the_bound(name):
    target = pattern_of(preset(name, 6, seed=1))
    X = patterns.real_tokens(6, 12, repeat=True)  # wide enough for all but that
    found = any_pattern.fit(target, steps=400, tokens=X)
    torch.testing.assert_close(found.pattern[:, 0], found.pattern[:, 5], atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(found.pattern[:, :, 0], found.pattern[:, :, 5], atol=1e-5, rtol=1e-3)
    nearest = patterns.tied(target, 0, 5)
    bound = float(patterns.divergence(target, nearest))
    assert bound == near(kl(target.double().numpy(), nearest.double().numpy()))
    assert (found.kl >= bound - 1e-5).all()
    assert float(found.kl[-1]) == pytest.approx(bound, abs=0.02)  # and it is reached
    if name == "diagonal":
        assert bound == near(2 / 6 * math.log(2))
        assert float(found.pattern[:, 0, 0].max()) <= 0.5 + 1e-5


def test_a_pattern_without_zeros_needs_n_minus_1_and_no_more(random_fit):
    assert any_pattern.exact_width(random_fit.target) == 7  # rows of centred logs sum to 0
    assert random_fit.largest[6] < 1e-3 and random_fit.largest[7] < 1e-3
    assert random_fit.kl[3] > 1e-3  # four are not enough
    # rank d_k scores, and softmax: a pattern of such scores is made with that width
    random = torch.Generator().manual_seed(0)
    low = torch.randn(6, 2, generator=random) @ torch.randn(2, 6, generator=random)
    assert any_pattern.exact_width(torch.softmax(low, -1)) == 2


def test_no_head_comes_nearer_in_scores_than_singular_vectors(random_fit, diagonal_fit):
    for found in (random_fit, diagonal_fit):
        bound = any_pattern.singular(found.target).left_over
        sizes = np.linalg.svd(any_pattern.centred_log(found.target).double().numpy())[1]
        expected = [math.sqrt((sizes[d_k:] ** 2).sum()) for d_k in range(1, len(sizes) + 1)]
        np.testing.assert_allclose(bound, expected, atol=2e-3)
        assert (found.off >= bound - 1e-3).all()


def test_training_is_never_worse_than_where_it_began(random_fit, diagonal_fit):
    for found in (random_fit, diagonal_fit):
        assert (found.kl <= found.singular_kl + 1e-5).all()


def test_patterns_and_outputs_are_compared_with_their_own_kind():
    random = torch.Generator().manual_seed(7)
    one, two = (torch.rand(5, 5, generator=random).softmax(-1) for _ in range(2))
    tokens = torch.randn(5, 3, generator=random)
    found = any_pattern.distances(one, two, tokens)
    assert found.pattern == near(float(np.linalg.norm(one - two)))
    assert found.output == near(
        float(np.linalg.norm(one.numpy() @ tokens.numpy() - two.numpy() @ tokens.numpy()))
    )
    assert found.output <= found.bound == near(found.pattern * float(np.linalg.norm(tokens, 2)))
    same = patterns.real_tokens(5, 3, repeat=True)
    swapped = any_pattern.distances(one, one[:, [4, 1, 2, 3, 0]], same)
    assert swapped.pattern > 0.01 and swapped.output < 1e-6  # another pattern, the same output
    one_hot = any_pattern.distances(one, two, torch.eye(5))
    assert (
        one_hot.output == one_hot.pattern == near(one_hot.bound)
    )  # there the output is the pattern
