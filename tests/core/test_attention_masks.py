"""Masks of every kind: padding, causality, and rows of nothing."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mha_viz.core.attention.attention import attention
from tests.core.attention_by_definition import (
    D_HEAD,
    HEADS,
    KEY,
    LOWEST,
    NEVER,
    QUERY,
    qkv,
)
from tests.making.comparing import close


@pytest.mark.parametrize("mask_dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_mask_may_have_another_float_dtype(mask_dtype: torch.dtype, dtype: torch.dtype) -> None:
    query, key, value = qkv(dtype=dtype)
    mask = torch.zeros(QUERY, KEY, dtype=mask_dtype)
    mask[1, 3] = mask[2] = torch.finfo(mask_dtype).min
    _, pattern = attention(query, key, value, mask)
    assert pattern.dtype == dtype
    assert torch.equal(pattern[:, 2], torch.zeros(HEADS, KEY, dtype=dtype))
    assert (pattern[:, 1, 3] == 0).all() and (pattern[:, 1, 4] > 0).all()


@pytest.mark.parametrize("need_pattern", [True, False])
@pytest.mark.parametrize("never", [None, NEVER, LOWEST])
def test_a_row_of_nothing_gives_zeros_and_finite_gradients(
    need_pattern: bool, never: float | None
) -> None:
    parts = [part.requires_grad_() for part in qkv(2)]
    allowed = torch.ones(2, 1, QUERY, KEY, dtype=torch.bool)
    allowed[1, :, 3] = False
    mask = allowed if never is None else torch.zeros(allowed.shape).masked_fill(~allowed, never)
    got, pattern = attention(*parts, mask, need_pattern=need_pattern)
    assert torch.equal(got[1, :, 3], torch.zeros(HEADS, D_HEAD))
    assert (got[0, :, 3] != 0).all()
    if need_pattern:
        sums = pattern.sum(-1)
        assert torch.equal(sums[1, :, 3], torch.zeros(HEADS))
        close(sums[0], torch.ones(HEADS, QUERY))
    got.sum().backward()
    assert all(part.grad.isfinite().all() for part in parts)
    assert torch.equal(parts[0].grad[1, :, 3], torch.zeros(HEADS, D_HEAD))


def textbook_kernel(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, *_: object, **how: object
) -> Tensor:
    """Torch's fused kernel as its documentation defines it: NaN for a row of only -inf."""
    factor = query.shape[-1] ** -0.5 if how["scale"] is None else how["scale"]
    return torch.softmax(query @ key.mT * factor + bias, -1) @ value


@pytest.mark.parametrize("never", [None, NEVER, LOWEST])
@pytest.mark.parametrize("kernel", [F.scaled_dot_product_attention, textbook_kernel])
def test_gradients_of_the_fused_path_do_not_hang_on_what_a_kernel_makes_of_a_row_of_nothing(
    kernel: Callable[..., Tensor], never: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(F, "scaled_dot_product_attention", kernel)
    mask = torch.arange(QUERY)[:, None] != 2
    if never is not None:
        mask = torch.zeros(QUERY, KEY).masked_fill(~mask, never)
    gradients = []
    for need_pattern in (True, False):
        parts = [part.requires_grad_() for part in qkv(2)]
        got, _ = attention(*parts, mask, need_pattern=need_pattern)
        got.square().sum().backward()
        gradients.append([part.grad for part in parts])
    for explicit, fused in zip(*gradients, strict=True):
        assert fused.isfinite().all()
        close(fused, explicit)
