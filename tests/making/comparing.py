"""The tolerance for numbers that are computed twice, or stored and computed again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

# Processors, batches and fused kernels each add the products of a float32 sum in an order of their
# own. Their results differ by a few parts in a million; a wrong formula differs by far more.
ROUNDING = 1e-5


def close(got: Any, want: Any, atol: float = ROUNDING, rtol: float = ROUNDING) -> None:
    """Check two tensors or arrays of the same shape; one number stands for all entries.

    NaN, "not defined", equals NaN alone.
    """
    got = _tensor(got)
    want = _tensor(want).to(got.dtype)
    want = want if want.ndim else want.expand(got.shape)
    torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)


def near(want: float | Sequence[float] | np.ndarray, nan_ok: bool = False) -> Any:
    """Return what equals floats up to the rounding of float32, in an `assert got == near(want)`."""
    return pytest.approx(want, rel=ROUNDING, abs=ROUNDING, nan_ok=nan_ok)


def _tensor(numbers: Any) -> torch.Tensor:
    """Return Python's floats in float64, which `torch.as_tensor` would round."""
    if isinstance(numbers, torch.Tensor):
        return numbers.detach()
    return torch.tensor(np.asarray(numbers))
