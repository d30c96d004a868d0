"""Recipes of training runs: sizes, lengths, rates; and the model to begin with."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from models import data
from models.optim import POSITIONAL


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run does."""

    kind: str
    tokens: float = 30e6
    minutes: float = 0.0  # 0: no limit
    n_layers: int = 4
    n_heads: int = 8
    n_kv_heads: int = 2  # llama only
    d_model: int = 256
    vocab: int = data.VOCAB
    context: int = data.CONTEXT
    batch_tokens: tuple[int, ...] = (2048, 2048, 2048)  # for each length
    lengths: tuple[int, ...] = (32, 64, 128)
    until: tuple[float, ...] = (0.1, 0.35, 1.0)  # of the run, for each length
    muon_lr: float = 0.02
    muon_phase: int = 0  # Muon comes in with this length; before, AdamW has all parameters
    adam_lr: float = 3e-3
    masked: float = 0.2  # share of the tokens to be predicted (masked model only)
    warmup: int = 100
    rewarm: int = 0  # steps of warm-up after each change of length
    decay: float = 0.7  # of the run, at its end: the rate falls to 0
    clip: float = 0.0
    seed: int = 0

    @property
    def causal(self) -> bool:
        """True where the model predicts the next token, from those before it."""
        return self.kind != "bert"


RECIPES = {
    "gpt2": Recipe("gpt2"),
    # Most tokens are read in short sequences, which are cheap; the last ones are long enough for
    # a head to find what stood 500 tokens before.
    "llama": Recipe(
        "llama",
        tokens=60e6,
        context=1024,
        lengths=(32, 64, 128, 256, 512, 1024),
        until=(0.25, 0.42, 0.58, 0.72, 0.85, 1.0),
        batch_tokens=(2048, 2048, 2048, 2048, 4096, 4096),
    ),
    # The masked model learns nothing but token frequencies for a long time when it begins with
    # long sequences; on 16 tokens its positional heads form soon.
    "bert": Recipe(
        "bert",
        lengths=(16, 32, 64, 128),
        until=(0.1, 0.2, 0.5, 1.0),
        batch_tokens=(2048, 2048, 4096, 4096),  # one token in five is predicted: noisy steps
        muon_lr=0.004,
        muon_phase=1,
        adam_lr=1e-3,
        warmup=200,
        rewarm=200,
        clip=1.0,
    ),
}


def build(recipe: Recipe) -> PreTrainedModel:
    """A model with random weights."""
    torch.manual_seed(recipe.seed)
    if recipe.kind == "gpt2":
        config = GPT2Config(
            vocab_size=recipe.vocab,
            n_positions=recipe.context,
            n_embd=recipe.d_model,
            n_layer=recipe.n_layers,
            n_head=recipe.n_heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            attn_implementation="eager",
        )
        model: PreTrainedModel = GPT2LMHeadModel(config)
        return model
    if recipe.kind == "llama":
        sizes = LlamaConfig(
            vocab_size=recipe.vocab,
            max_position_embeddings=recipe.context,
            hidden_size=recipe.d_model,
            # three matrices of this width hold about as much as GPT-2's two of 4 d_model
            intermediate_size=11 * recipe.d_model // 4,
            num_hidden_layers=recipe.n_layers,
            num_attention_heads=recipe.n_heads,
            num_key_value_heads=recipe.n_kv_heads,
            tie_word_embeddings=True,
            attention_bias=True,
            # Of 32 dimensions only those that turn slowly can compare tokens 500 apart.
            rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
            bos_token_id=0,
            eos_token_id=0,
            attn_implementation="eager",
        )
        llama = LlamaForCausalLM(sizes)
        for name, bias in llama.named_parameters():
            if name.endswith(POSITIONAL):
                nn.init.normal_(bias)
        look_at_previous_token(llama)
        return llama
    config = BertConfig(
        vocab_size=recipe.vocab,
        max_position_embeddings=recipe.context,
        hidden_size=recipe.d_model,
        num_hidden_layers=recipe.n_layers,
        num_attention_heads=recipe.n_heads,
        intermediate_size=4 * recipe.d_model,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    masked: PreTrainedModel = BertForMaskedLM(config)
    return masked


@torch.no_grad()
def look_at_previous_token(
    model: LlamaForCausalLM, strength: float = 6.0, n_pairs: int = 6
) -> None:
    """Let the first head look at the previous token, whatever the tokens are.

    A rotary head does so by its biases: the key's points one way in the pairs of dimensions that
    turn fastest, and the query's is that turned one place back. Learned positions find such a head
    soon; biases from random numbers do not, and induction builds on it.
    """
    attention = model.model.layers[0].self_attn
    half = attention.head_dim // 2
    angles = model.model.rotary_emb.inv_freq[:n_pairs]
    first = torch.arange(len(angles))
    attention.k_proj.bias[first], attention.k_proj.bias[first + half] = strength, 0.0
    attention.q_proj.bias[first] = strength * angles.cos()
    attention.q_proj.bias[first + half] = -strength * angles.sin()
