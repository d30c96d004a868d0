"""Lab 2: what it claims about mirrors, weights that break them, and 1 x 1 convolutions."""

import math

import numpy as np
import pytest
import torch

from mha_viz.learn.labs.own_reflection import learning
from mha_viz.learn.labs.own_reflection import numbers as lab
from tests.making.comparing import close, near


def test_the_numbers_are_softmax_of_dot_products():
    x = torch.tensor(lab.START)
    found = lab.reflection(x)
    dots = x.numpy() @ x.numpy().T
    close(found.dots, dots)
    exps = np.exp(dots / math.sqrt(2))
    close(found.pattern, exps / exps.sum(-1, keepdims=True))


def test_tokens_to_begin_with_are_a_counter_example():
    found = lab.reflection(torch.tensor(lab.START))
    assert {(one.token, one.by) for one in found.beaten} == {(1, 0), (5, 0)}
    for one in found.beaten:  # x.y = |x| |y| cos, and |y| cos > |x|
        x, y = np.array(lab.START[one.token]), np.array(lab.START[one.by])
        assert one.length == pytest.approx(np.linalg.norm(x))
        assert one.other_length == pytest.approx(np.linalg.norm(y))
        assert one.cosine == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
        assert one.other_length * one.cosine > one.length
        assert int(found.pattern[one.token].argmax()) == one.by


def test_no_score_exceeds_the_mean_of_the_two_on_the_diagonal():
    """The true half, for tokens of any length, with equality where two tokens are the same."""
    for seed in range(5):
        random = torch.Generator().manual_seed(seed)
        x = torch.randn(9, 1 + seed % 5, generator=random) * (1 + seed)
        x[4] = x[7]
        found = lab.reflection(x)
        apart = (x[:, None] - x).double().square().sum(-1) / 2
        torch.testing.assert_close(found.gaps.double(), apart, rtol=1e-4, atol=1e-3)
        assert (found.gaps >= 0).all()
        same = found.gaps <= 1e-6 * found.dots.diagonal().max()  # up to rounding
        assert same.sum() == 9 + 2 and same[4, 7] and same[7, 4]


def test_half_the_sum_of_the_diagonal_holds_for_every_score_and_no_distance():
    """Try several distances: with d(x, x) = 0 self-dominance by distance is impossible."""
    random = torch.Generator().manual_seed(11)
    for n, d in ((3, 2), (7, 5), (13, 1)):
        x = torch.randn(n, d, generator=random)
        pairs = n * (n - 1) // 2
        assert lab.below_half_sum(lab.reflection(x).dots) == pairs
        close(lab.distances(x), torch.cdist(x.double(), x.double()).float())
        assert (lab.distances(x).diagonal() == 0).all()
        assert lab.below_half_sum(torch.cdist(x, x, p=1.0)) == 0
    same = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, -1.0]])
    assert lab.below_half_sum(lab.reflection(same).dots) == 2  # equal tokens: equal, not less


def test_equal_norms_keep_directions_and_the_mean_square():
    x = torch.tensor(lab.START)
    same = lab.equal_norms(x)
    assert same.norm(dim=-1).std() < 1e-6
    assert same.square().sum() == near(float(x.square().sum()))
    close(torch.cosine_similarity(same, x), torch.ones(6))
    with_zero = lab.equal_norms(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    assert with_zero[0].tolist() == [0, 0] and with_zero[1].norm() == near(math.sqrt(12.5))


def test_the_share_is_what_a_loop_counts():
    d, n, texts = 3, 5, 40
    shares = lab.share_beaten([d], [0.0, 0.25, 1.0], n_tokens=n, n_texts=texts, seed=9)
    assert shares["0"] == [0.0] < shares["0.25"] < shares["1"]  # by how much lengths differ
    random = torch.Generator().manual_seed(9)
    drawn = torch.randn(texts, n, d, generator=random, dtype=torch.float64).numpy()
    lost = sum(
        any(text[i] @ text[j] > text[i] @ text[i] for j in range(n) if j != i)
        for text in drawn
        for i in range(n)
    )
    assert shares["Gaussian"][0] == pytest.approx(lost / (n * texts))


def test_weights_learn_to_look_left_and_begin_as_the_mirror():
    found = learning.learn_left(n_steps=300)
    assert found.steps[0] == 0 and found.steps[-1] == 300
    assert (found.before.argmax(-1) == torch.arange(8)).all() and found.previous[0] < 0.25
    assert found.previous[-1] > 0.85
    assert (found.after[1:].argmax(-1) == torch.arange(7)).all()
    assert found.losses[-1] < 0.3 < 1.5 < found.losses[0]


def test_without_positions_the_left_neighbour_cannot_be_known():
    found = learning.learn_left(n_steps=300, positions=False)
    # all that can be learned is not to look at oneself
    assert found.previous[-1] == pytest.approx(1 / 7, abs=0.01)
    assert found.losses[-1] == pytest.approx(math.log(7), abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_with_the_identity_for_a_pattern_attention_is_the_convolution(seed):
    x, W_V = lab.pointwise_example(6, seed)
    found = lab.pointwise(x, W_V)
    assert torch.equal(found.pattern, torch.eye(6))
    close(found.convolution, x @ W_V)  # conv1d is what we say it is
    assert found.difference < 1e-6
    assert lab.pointwise(x, W_V, temperature=1e-4).difference < 1e-6
    by_temperature = lab.differences(x, W_V)
    assert by_temperature[0] > 0.1 and by_temperature[-1] < 1e-5
