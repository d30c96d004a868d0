"""Lab 8: counted operations, bytes and parameters are those that torch and transformers count."""

from dataclasses import replace

import pandas as pd
import pytest
import torch
import transformers as tf
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

import mha_viz as mv
from mha_viz.core.attention.dot_product import attention
from mha_viz.core.attention.multi_head import MultiHeadAttention
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost import numbers as lab
from tests.making.families import build


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(1, 1), (12, 12), (6, 2)])
@pytest.mark.parametrize(("n", "n_read", "batch"), [(17, 0, 1), (3, 40, 1), (6, 11, 3)])
def test_costs_are_what_torch_counts(n, n_read, batch, n_heads, n_kv_heads):
    sizes = lab.Sizes(n, 48, n_heads, n_kv_heads, n_read=n_read, batch=batch)
    mha = MultiHeadAttention(48, n_heads, n_kv_heads, bias=False).requires_grad_(False)
    n_read = n_read or n
    with FlopCounterMode(display=False) as counter:
        out = mha(torch.ones(batch, n, 48), torch.ones(batch, n_read, 48))
    costs = lab.costs(sizes)
    assert costs.layer == counter.get_total_flops() // 2  # a product and a sum
    assert costs.head * n_heads == costs.layer
    assert costs.pattern == out.pattern.nbytes == 4 * batch * n_heads * n * n_read
    assert costs.cache == 4 * 2 * batch * n_read * n_kv_heads * 48 // n_heads
    assert costs.parameters == sum(p.numel() for p in mha.parameters())


def test_a_fused_kernel_takes_the_same_products_and_keeps_a_number_for_each_row():
    sizes = lab.Sizes(24, 32, 4, n_read=40, batch=2)
    q, k = torch.randn(2, 4, 24, 8), torch.randn(2, 4, 40, 8)
    with FlopCounterMode(display=False) as kept:
        attention(q, k, k)
    fused = sdpa_flop_count(q.shape, k.shape, k.shape)  # as torch counts its own kernel
    found = lab.costs(sizes)
    assert kept.get_total_flops() == fused == 2 * (found.scores + found.mixing)
    # torch's own kernel gives its rows' sums beside the output, for the gradients
    _, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k)
    assert sums.nbytes == found.row_sums == 4 * 2 * 4 * 24


@pytest.mark.parametrize("key_heads", [1, 3, 12])
def test_projections_and_pairs_cost_the_same_at_the_even_length(key_heads):
    sizes = lab.Sizes(1, 768, 12, key_heads)
    even = lab.even_length(sizes)
    found = lab.costs(lab.Sizes(even, 768, 12, key_heads))
    assert found.projections == found.scores + found.mixing
    assert even == 2 * 768 or key_heads < 12


@pytest.mark.parametrize(
    ("name", "published", "config", "cls"),
    [
        ("BERT-Base", 110e6, tf.BertConfig(), tf.BertModel),
        (
            "BERT-Large",
            336e6,
            tf.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                          intermediate_size=4096),
            tf.BertModel,
        ),
        ("GPT-2 Small", 124e6, tf.GPT2Config(), tf.GPT2Model),
        ("GPT-2 Large", 774e6, tf.GPT2Config(n_embd=1280, n_layer=36, n_head=20), tf.GPT2Model),
        (
            "GPT-3 175B",
            175e9,
            tf.GPT2Config(n_embd=12288, n_layer=96, n_head=96, n_positions=2048),
            tf.GPT2Model,
        ),
    ],
)  # fmt: skip
def test_published_models_have_as_many_parameters_as_transformers_counts(
    name, published, config, cls
):
    with torch.device("meta"):
        network = cls(config)
    given = next(row for row in lab.PUBLISHED if row.name == name)
    assert given.parameters == sum(p.numel() for p in network.parameters())
    assert given.parameters == pytest.approx(published, rel=0.01)
    inside = ("attention.self", "attention.output.dense", ".attn.c_")
    attention = sum(
        p.numel() for n, p in network.named_parameters() if any(part in n for part in inside)
    )
    assert given.attention == attention


def test_the_table_has_the_loaded_model_by_its_own_weights():
    model = mv.load("tiny-gpt2")
    table = lab.rows(1024, 2, model)
    own, published = table.iloc[-1], table[:-1]
    assert list(published.name) == [model.name for model in lab.PUBLISHED]
    assert (own.n_layers, own.d_model, own.n_heads, own.d_head) == (4, 256, 8, 32)
    assert own.attention == 4 * 4 * (256**2 + 256)
    assert own.parameters == model.network.num_parameters()
    assert own.pattern == 4 * 8 * 1024**2 * 2 and own.cache == 4 * 2 * 1024 * 256 * 2
    assert published.pattern[0] == 12 * 12 * 1024**2 * 2
    assert (published.d_head == published.d_model // published.n_heads).all()


def test_both_stacks_of_an_encoder_decoder_and_shared_keys_are_counted():
    t5, llama = build("t5"), build("llama")
    own = lab.rows(10, 4, t5).iloc[-1]
    assert own.n_layers == 2 + 3 + 3
    assert own.attention == 8 * 4 * 23 * 35  # no biases; heads of 7, five of them
    own = lab.rows(10, 4, llama).iloc[-1]
    assert own.attention == 2 * (2 * 30 * 6 * 14 + 2 * 30 * 3 * 14)
    assert own.cache == 2 * 2 * 10 * 3 * 14 * 4


def test_counts_too_large_for_64_bits_are_floats_in_tables():
    sizes = lab.Sizes(**lab.MAX_SIZES)
    last = lab.by_length(sizes, [64, 2**17]).iloc[-1]
    exact = lab.costs(replace(sizes, n=2**17, n_read=2**17))
    assert last.pattern == float(exact.pattern) and last.pairs == float(exact.pairs) > 2**63
    assert lab.by_length(lab.Sizes(7, 12, 3), [5]).pairs.dtype == "int64"


def test_largest_sizes_make_a_layer():
    sizes = lab.Sizes(**lab.MAX_SIZES)
    assert sizes.n_kv_heads == sizes.n_heads == 100_000


def test_long_texts_are_done_some_heads_at_a_time_and_give_the_same_bytes(monkeypatch):
    monkeypatch.setattr(measured, "MAX_BYTES", 2 * 4 * 61**2)
    assert measured.heads_at_once(61, 8) == 2
    assert list(measured.measure([(61, 32, 8)]).times.pattern) == [4 * 8 * 61**2]
    monkeypatch.undo()
    assert measured.heads_at_once(4096, 64) * 4 * 4096**2 <= 2**27


def test_the_exponent_is_the_power():
    def times(lengths, seconds):
        return pd.DataFrame({"n": lengths, "fastest_fused": [seconds(n) for n in lengths]})

    for power in (1.0, 1.5, 2.0):
        measurements = times((64, 256, 512, 4096), lambda n, p=power: 3e-7 * n**p)
        assert measured.exponent(measurements, "fused") == pytest.approx(power)
    # a constant beginning of every call hides in short texts: only the long ones count
    measurements = times((64, 4096, 8192), lambda n: 1e-2 + 1e-6 * n**2)
    assert measured.exponent(measurements, "fused", least=4096) == pytest.approx(2, abs=0.01)
    with pytest.raises(ArgumentError, match="needs two lengths"):
        measured.exponent(measurements, "fused", least=8192)


def test_what_would_take_too_long_is_refused():
    for runs in ([(64, 2048, 4)], [(8192, 64, 4)], []):
        with pytest.raises(ArgumentError, match="Give layers"):
            measured.measure(runs)
    with pytest.raises(ShapeError, match="do not divide"):
        measured.measure([(64, 64, 5)])
