"""The weights of a layer, against what the layers of real networks read and write."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import NotKeptError
from tests.engine.test_layer_activations import PROJECTIONS, heard
from tests.making.checkpoints import HEADS, LAYERS, OTHER, TEXT, spread, tokenizer
from tests.making.comparing import close
from tests.making.families import FAMILIES, SIZES, build


@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("name", PROJECTIONS)
def test_from_layer_and_head_outputs_are_the_real_layer(folders, models, name, layer):
    model = models[name]
    record = model.trace(TEXT)
    loader = {"bert": tf.BertForMaskedLM, "gpt2": tf.GPT2LMHeadModel}[name]
    network = loader.from_pretrained(folders[name]).eval()
    ids = [token.id for token in record.tokens]
    (activations,) = heard(network, *PROJECTIONS[name](network, layer), input_ids=ids)
    x, y = activations.X, activations.output

    ours = mv.MultiHeadAttention.from_layer(model, layer)
    output, pattern, *_ = ours(x[None], causal=name == "gpt2")
    assert y.std() > 0.1
    close(output[0], y)
    close(pattern[0], record.pattern[layer])

    b_O = model.attention_weights(layer).b_O
    assert b_O.abs().max() > 0.1  # it has to be added, and would be missed
    close(record.head_output[layer].sum(0) + b_O, y)


@pytest.mark.parametrize("name", FAMILIES)
def test_head_outputs_sum_to_what_the_real_layer_writes(name):
    model = build(name)
    record = model.trace(TEXT)
    written = {}
    for layer in range(2):
        module = FAMILIES[name][1](model.network, layer)
        module.register_forward_hook(lambda _, a, out, layer=layer: written.update({layer: out[0]}))
    ids = torch.tensor([[token.id for token in record.tokens]])
    decoder = {"decoder_input_ids": ids} if name == "t5" else {}
    with torch.no_grad():  # by our attention, which the families' tests hold against their own
        model.network(input_ids=ids, **decoder)
    for layer in range(2):
        b_O = model.attention_weights(layer).b_O
        total = record.head_output[layer].sum(0) + (0 if b_O is None else b_O)
        assert written[layer].std() > 0.05
        close(total, written[layer])


def test_weights_of_grouped_heads_are_split_by_heads():
    model = build("llama")
    weights = model.attention_weights(1)
    assert (model.n_heads, model.n_kv_heads, model.d_head, model.d_model) == (6, 3, 14, 30)
    assert weights.W_Q.shape == (6, 30, 14) and weights.W_K.shape == weights.W_V.shape == (
        3,
        30,
        14,
    )
    assert weights.W_O.shape == (6, 14, 30) and weights.b_O is None
    x = torch.randn(4, 30)
    module = model.network.layers[1].self_attn
    close(x @ weights.W_V[2], module.v_proj(x)[:, 28:42])
    assert weights.W_Q.data_ptr() == module.q_proj.weight.data_ptr()  # a view, not a copy


def test_an_encoder_decoders_weights_are_asked_for_by_part():
    model = build("t5")
    for part, layers in (("encoder", 2), ("decoder", 3), ("cross", 3)):
        record = model.trace(TEXT, OTHER, part=part)
        assert record.n_layers == layers
        weights = model.attention_weights(layers - 1, part)
        x = torch.randn(4, 23)
        stack = model.network.encoder if part == "encoder" else model.network.decoder
        block = stack.block[layers - 1].layer[1 if part == "cross" else 0]
        module = block.EncDecAttention if part == "cross" else block.SelfAttention
        close(x @ weights.W_Q[1], module.q(x)[:, 7:14])
        assert record.scale == (1.0,) * layers


def test_weights_of_an_unknown_layout_are_not_guessed():
    config = tf.GPTNeoXConfig(
        **SIZES, hidden_size=HEADS * 14, num_attention_heads=HEADS, bos_token_id=2, eos_token_id=3
    )  # its query_key_value interleaves the heads
    network = tf.AutoModel.from_config(config, attn_implementation=IMPLEMENTATION)
    model = AttentionModel(spread(network), tokenizer(pairs=False), name="neox")
    with pytest.raises(NotKeptError, match="not known here"):
        model.attention_weights(0)
    assert model.trace(TEXT).head_output.shape == (2, HEADS, 6, HEADS * 14)  # W_O is known
    layer = model.layers()[0]
    layer.module = torch.nn.Module()
    with pytest.raises(NotKeptError, match="not known here"):
        layer.modules()
