"""What two heads write beside each other: when a likeness is defined, and what changes it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mha_viz.core.metrics import output_pairs
from tests.core.pair_inputs import (
    ALL,
    HEADS,
    OF_Z,
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
