"""Tiny random models of every family whose residual stream can be taken apart."""

from functools import cache

import torch
import transformers as tf

from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.text.encoding import encode_texts
from tests.engine.test_families import CAUSAL as README_CAUSAL
from tests.engine.test_families import FALLBACK, LLAMA_LIKE, LONG, PAIRED, SINGLE, small_tokenizer
from tests.making.checkpoints import spread

# Beyond those of the README: each adds up its stream or makes its queries in a way of its own.
MORE = {
    "cohere": tf.CohereConfig(**LLAMA_LIKE),  # one norm for attention and MLP; logits are scaled
    "granite": tf.GraniteConfig(**LLAMA_LIKE, residual_multiplier=0.3, logits_scaling=7.0),
    "olmo2": tf.Olmo2Config(**LLAMA_LIKE),  # norms behind attention and MLP, and none before
    "gemma3": tf.Gemma3TextConfig(**LLAMA_LIKE),  # queries and keys have norms, head by head
    "mixtral": tf.MixtralConfig(  # experts in place of an MLP
        **{**LLAMA_LIKE, "intermediate_size": 40}, num_local_experts=2
    ),
}
CAUSAL = README_CAUSAL | set(MORE)
FAMILIES = SINGLE | PAIRED | MORE
EXACT = [name for name in FAMILIES if name not in FALLBACK]
PREDICTING = [name for name in EXACT if name not in PAIRED]
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
ROTATED_IN_FLOAT32 = {"modernbert"}  # its queries and keys, whatever it runs in
NOT_IN_FLOAT64 = {"gpt_oss", "mixtral", "cohere"}  # their experts, its norms


def in_both_precisions(names: list[str]) -> list[tuple[str, torch.dtype]]:
    """Each family in float32, and in float64 where transformers runs it in that."""
    return [
        (name, dtype)
        for name in names
        for dtype in TOLERANCE
        if dtype == torch.float32 or name not in NOT_IN_FLOAT64
    ]


@cache
def build(name: str, dtype: torch.dtype = torch.float32, predicts: bool = False) -> AttentionModel:
    """A tiny model, its weights far from zero, biases too."""
    auto = tf.AutoModel
    if predicts:
        auto = tf.AutoModelForCausalLM if name in CAUSAL else tf.AutoModelForMaskedLM
    network = auto.from_config(FAMILIES[name], attn_implementation=IMPLEMENTATION)
    template = name not in CAUSAL and name not in PAIRED
    return AttentionModel(spread(network).to(dtype), small_tokenizer(template), name=name)


def encoded(model: AttentionModel, text: str = LONG):
    return encode_texts(model.reader, text)[0]


def text_for(name: str) -> str:
    return LONG if name in CAUSAL else LONG.replace("cross", "[MASK]")


def miss(parts: torch.Tensor, whole: torch.Tensor) -> float:
    """Compute how far a sum is from the whole, by the whole's largest number."""
    return float((parts - whole).abs().max() / whole.abs().max())
