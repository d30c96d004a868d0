"""Rows of weights that sum to less than 1: the rest went to a sink, or was left out."""

import math

import pytest
import torch

from mha_viz.core.metrics import spread
from mha_viz.errors import ArgumentError
from tests.core.patterns import N, random_pattern
from tests.making.comparing import close


def test_entropies_are_of_what_is_left_of_a_row() -> None:
    pattern = torch.tensor([[[[0.37, 0.37], [0.37, 0.37]]]])
    close(spread.entropy(pattern), math.log(2))
    close(spread.normalized_entropy(pattern), 1.0)
    close(spread.entropy(0.1 * random_pattern()), spread.entropy(random_pattern()))
    close(spread.entropy(torch.zeros(1, 1, 2, 2)), 0.0)
    with pytest.raises(ArgumentError, match="may not see"):
        spread.normalized_entropy(pattern, causal=True)


@pytest.mark.parametrize("left", [0.998, 0.97])
def test_entropies_of_rows_that_lack_little_are_of_what_is_left(left: float) -> None:
    pattern = random_pattern()
    for measured in (spread.entropy, spread.mutual_information):
        close(measured(left * pattern), measured(pattern), 1e-5)


def test_rows_of_zeros_tell_nothing() -> None:
    alike = torch.full((1, 1, 5, 5), 0.2)
    alike[..., :2, :] = 0.0
    close(spread.mutual_information(alike), 0.0)
    apart = torch.eye(5)[None, None].clone()
    apart[..., :2, :] = 0.0
    close(spread.mutual_information(apart), math.log(3))
    close(spread.mutual_information(torch.zeros(1, 1, 5, 5)), 0.0)


def test_information_of_rows_of_less_than_1_is_that_of_the_joint_distribution() -> None:
    pattern = random_pattern() * torch.linspace(0.3, 1.0, N)[:, None]
    joint = pattern.double() / pattern.double().sum((-2, -1), keepdim=True)
    h = [torch.special.entr(joint.sum(axes)).sum(-1) for axes in (-2, -1)]
    want = h[0] + h[1] - torch.special.entr(joint).sum((-2, -1))
    close(spread.mutual_information(pattern), want)
