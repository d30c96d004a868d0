"""Scores as sums of products, against those that the run itself used."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.circuits.attribution.score_attribution import score_attribution
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from tests.engine.test_families import LONG, small_tokenizer
from tests.making.every_family import (
    EXACT,
    ROTATED_IN_FLOAT32,
    TOLERANCE,
    build,
    in_both_precisions,
)

LAYER, HEAD, QUERY, KEY, OTHER = 1, 4, 9, 7, 6


@pytest.mark.parametrize(("name", "dtype"), in_both_precisions(EXACT))
def test_shares_sum_to_the_score_and_to_the_difference(name, dtype):
    tolerance = max(TOLERANCE[dtype], 1e-6 if name in ROTATED_IN_FLOAT32 else 0)
    model = build(name, dtype)
    found = score_attribution(model, LONG, LAYER, HEAD, QUERY, KEY)
    assert abs(found.sum() - found.value) <= tolerance * abs(found.value)
    difference = score_attribution(model, LONG, LAYER, HEAD, QUERY, KEY, versus=OTHER)
    assert abs(difference.remainder) <= tolerance * abs(difference.value)
    record = model.trace(LONG)
    # Softmax keeps differences of scores; sinks take of all weights alike.
    weights = record.pattern[LAYER, HEAD, QUERY].double().log()
    assert difference.value == pytest.approx(float(weights[KEY] - weights[OTHER]), abs=2e-5)
    assert set(found.beyond) == {"t5": {"position bias"}, "gemma2": {"soft cap"}}.get(name, set())
    assert len(found.query_components) == len(found.key_components) == len(found.shares)
    assert all(c.layer in (None, 0, 1) for c in found.query_components)
    assert len(found.table()) == found.shares.numel() + len(found.beyond)


def test_a_position_bias_is_the_familys_own():
    model = build("t5", torch.float64)
    found = score_attribution(model, LONG, LAYER, HEAD, QUERY, KEY)
    attention = model.network.encoder.block[0].layer[0].SelfAttention
    own = attention.compute_bias(12, 12).detach()[0, HEAD, QUERY, KEY]
    assert found.beyond["position bias"] == pytest.approx(float(own))


def test_a_case_by_hand():
    """Embedding and position alone, no bias: four products, with the norm's scale."""
    config = tf.GPT2Config(
        vocab_size=19, n_embd=2, n_layer=1, n_head=1, n_positions=31, bos_token_id=2, eos_token_id=3
    )
    network = tf.GPT2Model(config).eval()
    for parameter in network.parameters():
        torch.nn.init.zeros_(parameter)
    block = network.h[0]
    with torch.no_grad():
        network.wte.weight[:] = torch.tensor([1.0, -1.0])
        network.wpe.weight[:2] = torch.tensor([[0.0, 0.0], [2.0, -2.0]])
        block.ln_1.weight[:], block.ln_1.eps = 1.0, 0.0
        block.attn.c_attn.weight[0, 0] = 3.0  # q_0 = 3 x_0
        block.attn.c_attn.weight[0, 2] = 5.0  # k_0 = 5 x_0
        block.attn.c_attn.bias[2] = 7.0  # the key's bias
    model = AttentionModel(network, small_tokenizer(False), name="by hand")
    found = score_attribution(model, "the cat", 0, 0, 1, 0)
    names = [[c.name for c in side] for side in (found.query_components, found.key_components)]
    share = {
        (names[0][i], names[1][j]): float(found.shares[i, j])
        for i in range(len(names[0]))
        for j in range(len(names[1]))
    }
    # The query's stream is (3, -3), of scale 3: 1/3 by the embedding and 2/3 by the position; the
    # key's is (1, -1), of scale 1. The score's own scale is 1 / sqrt(2).
    assert share["embedding", "embedding"] == pytest.approx(3 * 1 / 3 * 5 / 2**0.5)
    assert share["position", "embedding"] == pytest.approx(3 * 2 / 3 * 5 / 2**0.5)
    assert share["position", "key bias"] == pytest.approx(3 * 2 / 3 * 7 / 2**0.5)
    assert found.sum() == pytest.approx(3 * 12 / 2**0.5)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((9, 0, 1, 0), "layer .*9"),
        ((1, 8, 1, 0), "head .*8"),
        ((1, 0, 44, 0), "query"),
        ((1, 0, 1, 2), "key 2"),
        ((1, 0, 2, 1, 1), "versus"),
    ],
)
def test_bad_arguments_are_one_sentence(place, message):
    with pytest.raises(ArgumentError, match=message):
        score_attribution(mv.load("tiny-gpt2"), "The cat saw the cat", *place)
