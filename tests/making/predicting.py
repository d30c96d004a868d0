"""Tiny models with a prediction head, and the same with heads taken away in two ways."""

import copy

import torch
import transformers as tf

from mha_viz.engine.attention_function import IMPLEMENTATION, register
from mha_viz.engine.model import AttentionModel
from tests.making import checkpoints
from tests.making.checkpoints import TEXT, spread, tokenizer
from tests.making.families import FAMILIES

register()
NAMES = ("bert", "gpt2", *(name for name in FAMILIES if name != "t5"))


def build(name: str) -> AttentionModel:
    """A tiny model of the family, with its prediction head."""
    if name in ("bert", "gpt2"):
        network = getattr(checkpoints, name)()
        network.set_attn_implementation(IMPLEMENTATION)
    else:
        auto = tf.AutoModelForMaskedLM if name == "distilbert" else tf.AutoModelForCausalLM
        network = auto.from_config(FAMILIES[name][0], attn_implementation=IMPLEMENTATION)
        network = spread(network)
    return AttentionModel(network, tokenizer(pairs=name == "bert"), name=name)


def text_for(model: AttentionModel) -> str:
    return TEXT if model.causal else TEXT.replace("cat", "[MASK]")


def without(model: AttentionModel, *heads: tuple[int, int], part: str | None = None):
    """A copy of the model in which these heads' rows of W_O are zero."""
    twin = AttentionModel(copy.deepcopy(model.network), model.tokenizer, name="copy")
    for layer, head in heads:
        twin.layers(part)[layer].output()[head].zero_()
    return twin


def gates_of(model: AttentionModel, *off: tuple[int, int]) -> torch.Tensor:
    gates = torch.ones(model.n_layers, model.n_heads)
    for place in off:
        gates[place] = 0
    return gates
