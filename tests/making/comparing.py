"""The tolerance for numbers that are computed twice, or stored and computed again."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
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


def assert_alike(here: Any, there: Any, atol: float = 2e-5, rtol: float = 2e-4) -> None:
    """Both have the same parts, and the same values in them up to float32 rounding."""
    ours, theirs = dict(_parts(here)), dict(_parts(there))
    assert ours.keys() == theirs.keys() and ours
    for path, value in ours.items():
        if np.asarray(value).dtype.kind not in "fiu":  # words
            assert np.array_equal(value, theirs[path]), path
        else:
            np.testing.assert_allclose(theirs[path], value, rtol=rtol, atol=atol, err_msg=path)


def _parts(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor, array and number of a result, by where it stands in it."""
    if isinstance(found, torch.Tensor):
        yield path, found.detach().cpu().numpy()
    elif isinstance(found, np.ndarray | float | int | str | bool):
        yield path, found
    elif isinstance(found, pd.DataFrame):
        for column in found:
            yield f"{path}.{column}", found[column].to_numpy()
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from _parts(value, f"{path}[{key!r}]")
    elif isinstance(found, tuple | list):
        for at, value in enumerate(found):
            yield from _parts(value, f"{path}[{at}]")
    elif is_dataclass(found):
        for field in fields(found):
            if field.name not in ("model", "network", "device"):
                yield from _parts(getattr(found, field.name), f"{path}.{field.name}")
