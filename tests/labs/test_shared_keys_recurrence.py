"""Lab 14, against an RNN: what is counted and walked is what table 1 says, constants included."""

import math

import pytest

from mha_viz.learn.labs.shared_keys import recurrence as lab


@pytest.mark.parametrize("kind", lab.KINDS)
@pytest.mark.parametrize(("n", "d"), [(2, 4), (7, 4), (16, 8), (33, 3)])
def test_factored_matrix_are_those_of_the_formula(kind, n, d):
    assert lab.reached(kind, n, d).products == lab.formula(kind, n, d)


def test_paths_are_constant_linear_and_logarithmic():
    for n in (2, 9, 10, 27, 28):
        assert lab.reached("attention", n, 4).path == 3  # W_V, weights, W_O
        assert lab.reached("recurrent", n, 4).path == n
        assert lab.reached("convolution", n, 4).path == math.ceil(round(math.log(n, 3), 9))


def test_what_waits_for_what():
    for n in (4, 20):
        assert lab.reached("attention", n, 4).in_turn == 4  # W_Q or W_K, scores, weights, W_O
        assert lab.reached("recurrent", n, 4).in_turn == n
        found = lab.reached("convolution", n, 4)
        assert found.in_turn == found.layers == found.path
