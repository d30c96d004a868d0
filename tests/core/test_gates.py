"""Gates of the attention function: a factor for each head."""

import pytest
import torch

from mha_viz.core.attention.attention import attention
from tests.core.attention_by_definition import (
    qkv,
)
from tests.making.comparing import close


@pytest.mark.parametrize("need_pattern", [True, False])
def test_gates_scale_each_head(need_pattern: bool) -> None:
    query, key, value = qkv(2)
    want, want_pattern = attention(query, key, value)
    gates = torch.tensor([[0.0, 1.0, 2.5], [1.0, 0.5, 0.0]])
    got, pattern = attention(query, key, value, gates=gates, need_pattern=need_pattern)
    close(got, want * gates[..., None, None])
    if need_pattern:
        close(pattern, want_pattern)
    shared, _ = attention(query, key, value, gates=gates[0])
    close(shared, want * gates[0][:, None, None])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("need_pattern", [True, False])
def test_gates_of_float32_leave_half_types_as_they_are(
    dtype: torch.dtype, need_pattern: bool
) -> None:
    parts = qkv(2, dtype=dtype)
    gates = torch.tensor([0.0, 1.0, 2.5])  # each exact in half precision
    got, _ = attention(*parts, gates=gates, need_pattern=need_pattern)
    assert got.dtype == dtype
    ungated, _ = attention(*parts, need_pattern=need_pattern)
    # To the bit: the same kernel, and then one product.
    assert torch.equal(got, ungated * gates.to(dtype)[:, None, None])
