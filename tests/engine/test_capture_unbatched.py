"""`mv.capture` on inputs without an axis of texts."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import mha_viz as mv

D, HEADS, N, M = 14, 2, 5, 11


@pytest.mark.parametrize(
    ("more", "n_added"),
    [({}, 0), ({"kdim": 6, "vdim": 6}, 0), ({"add_bias_kv": True, "add_zero_attn": True}, 2)],
    ids=["one matrix", "three matrices", "with keys of its own"],
)
def test_capture_module_without_batch_keeps_the_weights_of_each_head(
    more: dict[str, Any], n_added: int
) -> None:
    torch.manual_seed(3)
    network = nn.MultiheadAttention(D, HEADS, **more).eval()
    x, y = torch.randn(N, D), torch.randn(M, more.get("kdim", D))
    _, expected = network(x, y, y, average_attn_weights=False)
    with mv.capture(network) as taken:
        _, averaged = network(x, y, y)
    (call,) = taken.calls
    assert call.pattern.shape == (1, HEADS, N, M + n_added)
    torch.testing.assert_close(call.pattern[0], expected)
    torch.testing.assert_close(averaged, expected.mean(0))


def test_capture_fused_call_without_heads_keeps_one_head() -> None:
    class Single(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, y, y)

    torch.manual_seed(4)
    x, y = torch.randn(3, N, D), torch.randn(3, M, D)
    with mv.capture(network := Single()) as taken:
        network(x, y)
    (call,) = taken.calls
    torch.testing.assert_close(call.pattern[:, 0], (x @ y.mT / D**0.5).softmax(-1))
