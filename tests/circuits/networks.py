"""Tiny random networks of many families, and by name the norms between their heads."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers as tf
from torch import Tensor, nn

from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from tests.making import checkpoints
from tests.making.checkpoints import D_HEAD, HEADS, spread, tokenizer
from tests.making.families import FAMILIES, HEADED, SIZES

LAYERS = 3
D_MODEL = HEADS * D_HEAD
Norms = list[nn.Module]


class Family(NamedTuple):
    """Builder of a small network, and the norms of its layers.

    Args:
        build: a network.
        reading: before queries, keys and values.
        passing: in the stream, behind attention and MLP.
        writing: behind W_O, beside the stream.
    """

    build: Callable[..., Any]
    reading: Callable[[Any, int], Norms] = lambda network, i: []
    passing: Callable[[Any, int], Norms] = lambda network, i: []
    writing: Callable[[Any, int], Norms] = lambda network, i: []


def _of(config: Any) -> Callable[..., Any]:
    return lambda kind=tf.AutoModel: kind.from_config(config, attn_implementation=IMPLEMENTATION)


def _rotary(kind: Any, **more: Any) -> Any:
    """Three key heads for six query heads, of a width that is not d_model / n_heads."""
    sizes = {**SIZES, "num_hidden_layers": LAYERS, "hidden_size": 42, "head_dim": 14}
    return kind(**sizes, num_attention_heads=6, num_key_value_heads=3, **more)


def _changed(name: str, **more: Any) -> Any:
    """The config of the other tests, with a third layer."""
    return type(config := FAMILIES[name][0])(**{**config.to_dict(), **more})


_LIKE_BERT = HEADED | dict(num_hidden_layers=LAYERS)
_LIKE_BART = _LIKE_BERT | dict(encoder_layers=LAYERS, decoder_layers=2, decoder_start_token_id=0)
_BART = tf.BartConfig(
    **_LIKE_BART, decoder_attention_heads=HEADS, encoder_ffn_dim=37, decoder_ffn_dim=37
)
_NARROW = _LIKE_BERT | dict(hidden_size=HEADS * 8)  # a width that a rotation divides

NETWORKS = {
    "bert": Family(
        checkpoints.bert,
        passing=lambda n, i: [
            n.bert.encoder.layer[i].attention.output.LayerNorm,
            n.bert.encoder.layer[i].output.LayerNorm,
        ],
    ),
    "distilbert": Family(
        _of(_changed("distilbert", n_layers=LAYERS)),
        passing=lambda n, i: [
            n.transformer.layer[i].sa_layer_norm,
            n.transformer.layer[i].output_layer_norm,
        ],
    ),
    "albert": Family(  # one layer's weights, run again and again
        _of(tf.AlbertConfig(embedding_size=11, **_LIKE_BERT)),
        passing=lambda n, i: [
            n.encoder.albert_layer_groups[0].albert_layers[0].attention.LayerNorm,
            n.encoder.albert_layer_groups[0].albert_layers[0].full_layer_layer_norm,
        ],
    ),
    "bart": Family(
        _of(_BART),
        passing=lambda n, i: [
            n.encoder.layers[i].self_attn_layer_norm,
            n.encoder.layers[i].final_layer_norm,
        ],
    ),
    "gpt2": Family(checkpoints.gpt2, reading=lambda n, i: [n.transformer.h[i].ln_1]),
    "opt": Family(
        _of(_changed("opt", num_hidden_layers=LAYERS)),
        reading=lambda n, i: [n.decoder.layers[i].self_attn_layer_norm],
    ),
    "llama": Family(
        _of(_rotary(tf.LlamaConfig)), reading=lambda n, i: [n.layers[i].input_layernorm]
    ),
    "phi": Family(  # attention and MLP side by side
        _of(tf.PhiConfig(**_NARROW)),
        reading=lambda n, i: [n.layers[i].input_layernorm],
    ),
    "modernbert": Family(  # its first layer has no norm before attention
        _of(
            tf.ModernBertConfig(
                **_NARROW, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3
            )
        ),
        reading=lambda n, i: [n.layers[i].attn_norm] if i else [],
    ),
    "gemma2": Family(  # gains less 1, and norms behind W_O
        _of(_rotary(tf.Gemma2Config)),
        reading=lambda n, i: [n.layers[i].input_layernorm],
        writing=lambda n, i: [n.layers[i].post_attention_layernorm],
    ),
    "t5": Family(
        _of(_changed("t5", num_layers=LAYERS)),
        reading=lambda n, i: [n.encoder.block[i].layer[0].layer_norm],
    ),
}


def build(name: str, dtype: torch.dtype = torch.float64) -> AttentionModel:
    network = spread(NETWORKS[name].build()).to(dtype)
    return AttentionModel(network, tokenizer(pairs=False), name=name)


def causal(name: str) -> AttentionModel:
    """The same with a head that predicts the next token, its weights its own but for GPT-2's."""
    kind = () if name == "gpt2" else (tf.AutoModelForCausalLM,)
    network = spread(NETWORKS[name].build(*kind)).to(torch.float64)
    return AttentionModel(network, tokenizer(pairs=False), name=name)


def matrix(norm: nn.Module) -> Tensor:
    """A norm's linear part as a matrix, by its class."""
    gain = norm.weight.detach().double()
    if "Gemma" in type(norm).__name__:
        gain = 1 + gain
    identity = torch.eye(len(gain), dtype=torch.float64)
    return (identity - 1 / len(gain) if isinstance(norm, nn.LayerNorm) else identity) * gain


def in_order(norms: Norms, d_model: int) -> Tensor:
    """Multiply the matrices of several norms, in their order."""
    whole = torch.eye(d_model, dtype=torch.float64)
    for norm in norms:
        whole = whole @ matrix(norm)
    return whole
