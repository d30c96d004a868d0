"""What a training run does: sizes, lengths, rates; and the model to begin with."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
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
    embeddings: str = ""  # the folder of the shipped model whose token embeddings begin the run
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
        """Whether the model predicts the next token, from those before it."""
        return self.kind != "bert"


RECIPES = {
    "gpt2": Recipe("gpt2"),
    # Most tokens are read in short sequences, which are cheap; the last ones are long enough for
    # a head to find what stood 500 tokens before.
    "llama": Recipe(
        "llama",
        tokens=60e6,
        context=1024,
        embeddings="tiny-gpt2",  # which has the same tokens
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
        # A rotary head looks at the previous token, whatever the tokens are, by its biases; at 0
        # both have no gradient. Induction builds on such a head.
        for name, bias in llama.named_parameters():
            if name.endswith(POSITIONAL):
                nn.init.normal_(bias)
        if recipe.embeddings:
            weights = load_file(Path(__file__).parent / recipe.embeddings / "model.safetensors")
            llama.get_input_embeddings().weight.data.copy_(weights["transformer.wte.weight"])
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
