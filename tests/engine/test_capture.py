"""`mv.capture`: the weights of networks that call PyTorch's attention."""

from typing import Any

import pytest
import torch
import transformers as tf
from torch import nn
from torch.nn import functional as F

import mha_viz as mv
from mha_viz.errors import ArgumentError, RecordError

D, HEADS, N, M = 14, 2, 5, 11  # d_model, heads, queries, keys


class Own(nn.Module):
    """A network of one's own: a fused call, and a module that is asked for its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(D, 3 * D)
        self.cross = nn.MultiheadAttention(D, HEADS, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.mix(x).chunk(3, -1)
        )
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        return self.cross(x, y, y)


def own() -> tuple[Own, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return Own().eval(), torch.randn(3, N, D), torch.randn(3, M, D)


def test_calls_of_every_kind_are_captured_and_the_outputs_stay() -> None:
    network, x, y = own()
    expected, averaged = network(x, y)
    with mv.capture(network) as taken:
        found, weights = network(x, y)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(weights, averaged)
    assert taken.modules == ["", "cross"]
    fused, cross = taken.calls
    assert fused.pattern.shape == (3, HEADS, N, N) and cross.pattern.shape == (3, HEADS, N, M)
    torch.testing.assert_close(cross.pattern.mean(1), averaged)
    q, k = (
        part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in network.mix(x).chunk(3, -1)[:2]
    )
    scores = (q @ k.mT / (D // HEADS) ** 0.5).masked_fill(torch.ones(N, N).triu(1) > 0, -torch.inf)
    torch.testing.assert_close(fused.pattern, scores.softmax(-1))


def test_a_record_takes_the_modules_that_it_is_asked_for() -> None:
    network, x, y = own()
    with mv.capture(network) as taken:
        network(x, y)
    names = [*"abcdefghijk"]
    record = taken.record(names[:N], names, modules="cross", item=2, model="mine")
    assert record.shape == (1, HEADS, N, M) and record.part == "cross"
    torch.testing.assert_close(record.pattern[0], taken.calls[1].pattern[2])
    assert mv.head_report(record).shape[0] == HEADS
    with pytest.raises(RecordError, match="one shape"):
        taken.record(names[:N])
    with pytest.raises(RecordError, match=r"'decoder'.*There are: , cross"):
        taken.record(names[:N], modules="decoder")
    with pytest.raises(RecordError, match=r"item must be in 0\.\.2"):
        taken.record(names[:N], names, modules="cross", item=3)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", ["none", "both"])
def test_an_encoder_is_captured_with_its_masks_and_without_its_fast_path(
    batch_first: bool, kind: str
) -> None:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(D, HEADS, 13, batch_first=batch_first)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, N, D) if batch_first else torch.randn(N, 3, D)
    masks: dict[str, torch.Tensor] = {}
    if kind == "both":
        masks["src_key_padding_mask"] = torch.arange(N).expand(3, N) >= torch.tensor(
            [[5], [3], [4]]
        )
        masks["mask"] = torch.ones(N, N).triu(1) > 0
    with torch.no_grad():
        expected = encoder(x, **masks)
        with mv.capture(encoder) as taken:
            found = encoder(x, **masks)
    real = ~masks.get("src_key_padding_mask", torch.zeros(3, N, dtype=torch.bool))
    found, expected = (t if batch_first else t.transpose(0, 1) for t in (found, expected))
    torch.testing.assert_close(found[real], expected[real])
    assert taken.modules == ["layers.0.self_attn", "layers.1.self_attn"]
    for call in taken.calls:
        torch.testing.assert_close(call.pattern.sum(-1), torch.ones(3, HEADS, N))
        hidden = ~real[:, None, None].expand_as(call.pattern)
        assert not call.pattern[hidden].any()
        if "mask" in masks:
            assert not call.pattern.triu(1).any()
    assert taken.record([*"abcde"]).shape == (2, HEADS, N, N)


def test_dropout_is_refused_and_hooks_are_gone_afterwards() -> None:
    network = nn.MultiheadAttention(D, HEADS, dropout=0.3).train()
    x = torch.randn(N, 3, D)
    with pytest.raises(ArgumentError, match=r"network\.eval"), mv.capture(network):
        network(x, x, x)
    assert not network._forward_hooks and not network._forward_pre_hooks
    network.eval()
    with mv.capture(network) as taken:
        network(x, x, x, need_weights=False)
    network(x, x, x)
    assert len(taken.calls) == 1  # and none of what runs outside of the block


def test_a_model_of_images_is_captured_as_it_computes() -> None:
    sizes = {"hidden_size": 35, "num_attention_heads": 5, "intermediate_size": 37}
    config = tf.ViTConfig(image_size=12, patch_size=4, num_hidden_layers=2, **sizes)
    network = tf.ViTModel(config).eval()
    pictures = torch.rand(3, 3, 12, 12, generator=torch.Generator().manual_seed(3))
    with mv.capture(network) as taken, torch.no_grad():
        network(pixel_values=pictures)
    network.set_attn_implementation("eager")
    with torch.no_grad():
        own = network(pixel_values=pictures, output_attentions=True).attentions
    record = taken.record(["class", *(f"patch {i}" for i in range(9))], item=1)
    torch.testing.assert_close(record.pattern, torch.stack(own)[:, 1])


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
