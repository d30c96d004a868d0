"""What two heads write beside each other: when a likeness is defined, and what changes it."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mha_viz.core.metrics import output_pairs
from tests.core.pair_inputs import (
    ALL,
    D_HEAD,
    HEADS,
    OF_Z,
    N,
    random_z,
)
from tests.making.comparing import close


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0])
@pytest.mark.parametrize("function", OF_Z)
def test_a_constant_head_has_no_likeness_that_is_defined(
    function: Callable[..., Tensor], value: float
) -> None:
    z = random_z(101)
    z[1, 2] = value
    matrix, at = function(z), HEADS + 2
    others = [i for i in range(ALL) if i != at]
    assert matrix[others][:, others].isfinite().all()
    if function is output_pairs.redundancy and value != 0:  # which is not centred
        assert matrix.isfinite().all()
    else:
        assert matrix[at].isnan().all() and matrix[:, at].isnan().all()


def test_a_head_that_is_the_same_for_every_query_has_no_cka_but_a_correlation() -> None:
    z = random_z()
    z[0, 1] = torch.randn(D_HEAD)
    assert output_pairs.cka(z)[1].isnan().all() and output_pairs.correlation(z)[1].isfinite().all()
    assert output_pairs.cka_biased(random_z(1)).isnan().all()  # one query
    assert output_pairs.correlation(random_z(1)).isfinite().all()
    close(output_pairs.redundancy(random_z(1)).diagonal(), 1.0)


@pytest.mark.parametrize(
    "function", [output_pairs.correlation, output_pairs.cka, output_pairs.cka_biased]
)
def test_a_head_that_differs_by_rounding_alone_has_no_likeness(
    function: Callable[..., Tensor],
) -> None:
    z = random_z()
    z[1, 2] = 9.0 + 1e-6 * torch.randn(z.shape[-2:])
    z[0, 1] = 9.0 + 1e-4 * torch.randn(z.shape[-2:])
    got, place = function(z), HEADS + 2
    others = torch.arange(len(got)) != place
    assert got[place].isnan().all() and got[others][:, others].isfinite().all()
    close(got[others][:, others], function(z.double())[others][:, others], atol=2e-2)


def test_orthogonal_heads() -> None:
    z = torch.zeros(1, 2, N, 6)
    z[0, 0, :, :3], z[0, 1, :, 3:] = torch.randn(N, 3), torch.randn(N, 3)
    assert (
        output_pairs.redundancy(z)[0, 1] == output_pairs.redundancy(z, normalize=False)[0, 1] == 0
    )
    z[0, :, :, :] = 0.0
    z[0, 0, :2, 0], z[0, 1, 2:4, 0] = torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0])
    assert output_pairs.cka_biased(z)[0, 1] == output_pairs.correlation(z)[0, 1] == 0


def test_turning_a_head_changes_all_but_cka() -> None:
    z = random_z()
    turn = torch.linalg.qr(torch.randn(D_HEAD, D_HEAD)).Q
    z[1, 3] = 7 * z[0, 2] @ turn
    at = (2, HEADS + 3)
    close(output_pairs.cka(z)[at], 1.0)
    close(output_pairs.cka_biased(z)[at], 1.0)
    assert output_pairs.redundancy(z)[at] < 0.9 and abs(output_pairs.correlation(z)[at]) < 0.9


@pytest.mark.parametrize("function", OF_Z)
@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_likeness_does_not_depend_on_scale(function: Callable[..., Tensor], scale: float) -> None:
    close(function(random_z() * scale), function(random_z()))


def test_a_head_of_rank_one_is_as_redundant_as_the_textbook_says() -> None:
    z = random_z()
    z[0, 0] = torch.randn(N, 1) * torch.randn(D_HEAD)
    own = output_pairs.redundancy(z, normalize=False).diagonal()
    close(own[0], 1.0)
    assert (own[1:] < 0.99).all() and (own[1:] > 1 / math.sqrt(D_HEAD)).all()
