"""Tiny networks whose families lay their attention out differently, and where each writes it."""

import transformers as tf

from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from tests.making.checkpoints import D_HEAD, HEADS, N_CTX, WORDS, spread, tokenizer

SIZES = dict(
    vocab_size=len(WORDS),
    num_hidden_layers=2,
    intermediate_size=37,
    pad_token_id=0,
    max_position_embeddings=N_CTX,
)
# Sizes have the same names in all configs: transformers keeps each under the family's own.
HEADED = SIZES | dict(hidden_size=HEADS * D_HEAD, num_attention_heads=HEADS)
FAMILIES = {
    "distilbert": (
        tf.DistilBertConfig(**HEADED, hidden_dim=37),
        lambda network, layer: network.transformer.layer[layer].attention.out_lin,
    ),
    "llama": (  # three key heads for six query heads, of a width that is not d_model / n_heads
        tf.LlamaConfig(
            **SIZES, num_attention_heads=6, num_key_value_heads=3, hidden_size=30, head_dim=14
        ),
        lambda network, layer: network.layers[layer].self_attn.o_proj,
    ),
    "opt": (
        tf.OPTConfig(**HEADED, word_embed_proj_dim=HEADS * D_HEAD, ffn_dim=37),
        lambda network, layer: network.decoder.layers[layer].self_attn.out_proj,
    ),
    "t5": (
        tf.T5Config(
            **HEADED | dict(hidden_size=23, max_position_embeddings=None),
            d_kv=D_HEAD,
            d_ff=37,
            num_decoder_layers=3,
            decoder_start_token_id=0,
        ),
        lambda network, layer: network.encoder.block[layer].layer[0].SelfAttention.o,
    ),
}


def build(name: str) -> AttentionModel:
    network = tf.AutoModel.from_config(FAMILIES[name][0], attn_implementation=IMPLEMENTATION)
    return AttentionModel(spread(network), tokenizer(pairs=False), name=name)
