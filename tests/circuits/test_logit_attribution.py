"""Logits and scores as sums of shares, against the run and against parts taken away."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.circuits.attribution.logit_attribution import logit_attribution
from mha_viz.circuits.attribution.score_attribution import score_attribution
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction.logits import logits
from tests.circuits.frozen_reference import FrozenNetwork
from tests.circuits.plain_paths import note, put
from tests.engine.test_families import LONG, small_tokenizer
from tests.making.every_family import (
    EXACT,
    PREDICTING,
    ROTATED_IN_FLOAT32,
    TOLERANCE,
    build,
    encoded,
    in_both_precisions,
    text_for,
)


@torch.no_grad()
def own_logits(model: AttentionModel, text: str, position: int) -> torch.Tensor:
    return logits(model.network, [encoded(model, text)])[0, position]


@pytest.mark.parametrize(("name", "dtype"), in_both_precisions(PREDICTING))
def test_shares_sum_to_the_logit_the_difference_and_the_log_probability(name, dtype):
    tolerance = TOLERANCE[dtype]
    model, text = build(name, dtype, predicts=True), text_for(name)
    found = logit_attribution(model, text, token="mat")
    own = own_logits(model, text, found.position)
    mat, street = (model.tokenizer.convert_tokens_to_ids(word) for word in ("mat", "street"))
    size = float(own.abs().max())
    assert found.token_id == mat and abs(found.value - float(own[mat])) <= tolerance * size
    assert abs(found.sum() - float(own[mat])) <= tolerance * size
    assert abs(found.remainder) <= tolerance * size
    difference = logit_attribution(model, text, "mat", versus="street")
    assert abs(difference.sum() - float(own[mat] - own[street])) <= tolerance * size
    nats = logit_attribution(model, text, "mat", of="log_probability")
    assert abs(nats.sum() - float(own.log_softmax(-1)[mat])) <= tolerance * size
    heads = torch.stack(
        [s for c, s in zip(found.components, found.shares, strict=True) if c.kind == "head"]
    )
    miss = (found.heads.flatten() - heads).abs().max()
    assert float(miss) <= tolerance * size


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_share_is_what_is_lost_without_the_component_with_the_norms_frozen(name):
    model, text = build(name, torch.float64, predicts=True), text_for(name)
    found = logit_attribution(model, text, "mat")
    share = dict(zip((c.name for c in found.components), found.shares.tolist(), strict=True))
    ids = encoded(model, text).input_ids
    own = FrozenNetwork(model, ids)
    writers = [own.network.get_input_embeddings(), *own.outputs, *own.mlps]
    written = [None] * len(writers)
    own.run(ids, *(note(module, written, i) for i, module in enumerate(writers)))

    def lost(writer: int, part: torch.Tensor) -> float:
        """Return what the logit loses while all other writers write what they wrote."""
        less = [tensor - part if i == writer else tensor for i, tensor in enumerate(written)]
        logits = own.run(ids, *map(put, writers, less))
        return float((own.logits.detach() - logits)[found.position, found.token_id])

    assert abs(lost(0, written[0]) - share["embedding"]) <= 1e-9
    for layer in range(model.n_layers):
        mlp = 1 + model.n_layers + layer
        assert abs(lost(mlp, written[mlp]) - share[f"L{layer} MLP"]) <= 1e-9
        weights = model.attention_weights(layer)
        z = own.z[layer].detach().unflatten(-1, (model.n_heads, -1))
        heads = torch.einsum("bqhd,hdm->hbqm", z - weights.b_V, weights.W_O)
        for head, part in enumerate(heads):
            assert abs(lost(1 + layer, part) - share[f"L{layer} H{head}"]) <= 1e-9


def test_a_masked_model_masks_the_position_that_is_asked_for():
    model = mv.load("tiny-bert")
    typed = mv.logit_attribution(model, "The [MASK] sat on the mat.", "cat")
    asked = mv.logit_attribution(model, "The cat sat on the mat.", "cat", position=2)
    assert asked.value == pytest.approx(typed.value)
    with pytest.raises(TextError, match=r"\[MASK\]"):
        mv.logit_attribution(model, "The cat sat on the mat.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(token="antidisestablishment"), "tokens"),
        (dict(token=10**6), "target"),
        (dict(token="cat", versus="cat"), "versus"),
        (dict(position=99), "position"),
        (dict(of="loss"), "of must be"),
        (dict(token="a", versus="the", of="log_probability"), "of="),
    ],
)
def test_bad_arguments_are_one_sentence(given, message):
    with pytest.raises(ArgumentError, match=message):
        logit_attribution(mv.load("tiny-gpt2"), "The cat sat", **given)


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
def test_bad_positions_are_one_sentence(place, message):
    with pytest.raises(ArgumentError, match=message):
        score_attribution(mv.load("tiny-gpt2"), "The cat saw the cat", *place)
