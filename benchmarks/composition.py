"""The cost of comparing each head's output with the input of every later head."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import BertModel, GPT2Config, GPT2Model
from transformers.utils import logging

from benchmarks.measure import Result, at_most, interleaved, ratio, spread
from benchmarks.trace import WORDS, network, traced_model
from mha_viz.circuits.composition.head_pairs import composition
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel

N_TOKENS = 128
AIM = 2.0  # bare passes
TITLE = "Composition of all pairs of heads"
ABOUT = """12 layers, 12 heads, d_model 768 (random weights), float32, CPU; processor time of all
threads. Scores and z-scores of all pairs by `composition(model, "K")`, beside a bare forward pass
of BERT of that size over 128 tokens with torch's fused attention (`sdpa`). GPT-2 norms before its
layers. BERT norms the sums in its stream: what stands between two heads is another matrix for any
two layers. In coordinates over the gains passed so far it is the identity but for one product of
two vectors a norm, so that all pairs take one computation as GPT-2's do, and few numbers a head
more; the spread by chance is worked out anew at every later layer. Beside it, too,
the products of d_model x d_model matrices that the definition asks for, of one head with those of
the next layer and scaled up to all, without z-scores. The short pass that finds a model's norms,
once for each model, is not counted."""


def measure(repeats: int = 5, **sizes: int) -> list[Result]:
    """Ratios for a family that norms before its layers, and one that norms its sums."""
    logging.set_verbosity_error()
    bert = traced_model(**sizes)
    gpt2 = _gpt2(bert)
    bare = network("sdpa", **sizes)
    ids = torch.tensor([[i % len(WORDS) for i in range(N_TOKENS)]])
    ways = {
        "bare": partial(_pass, bare, ids),
        "GPT-2": partial(composition, gpt2, "K"),
        "BERT": partial(composition, bert, "K"),
        "by definition": partial(_by_definition, gpt2),
    }
    seconds = interleaved(ways, repeats, clock=time.process_time)
    n_layer_pairs = gpt2.n_layers * (gpt2.n_layers - 1) // 2
    plain = [n_layer_pairs * gpt2.n_heads * s for s in seconds["by definition"]]
    results = []
    for name in ("GPT-2", "BERT"):
        over = ratio(seconds[name], seconds["bare"])
        results.append(
            Result(
                measure=f"{n_layer_pairs * gpt2.n_heads**2:,} pairs, {name}",
                ours=spread(seconds[name], 1e3, " ms"),
                beside=f"bare pass {spread(seconds['bare'], 1e3, ' ms')}",
                ratio=f"{over:.2f}",
                aim=f"at most {AIM:.0f}",
                met=at_most(over, AIM),
            )
        )
    faster = ratio(plain, seconds["GPT-2"])
    by_definition = Result(
        measure="the same, GPT-2",
        ours=spread(seconds["GPT-2"], 1e3, " ms"),
        beside=f"by definition {spread(plain, 1, ' s', 1)} (scaled up)",
        ratio=f"{faster:.0f} times faster",
    )
    return [*results, by_definition]


@torch.inference_mode()
def _pass(bare: BertModel, ids: Tensor) -> Any:
    return bare(input_ids=ids)


@torch.inference_mode()
def _by_definition(model: AttentionModel) -> Tensor:
    """||W_OV W_QK^T|| / (||W_OV|| ||W_QK||) of L0 H0 with the next layer; norms left out."""
    early, late = model.attention_weights(0), model.attention_weights(1)
    W_OV = early.W_V[0] @ early.W_O[0]
    W_KQ = late.W_K @ late.W_Q.mT  # (head, d_model, d_model)
    return (W_OV @ W_KQ).norm(dim=(1, 2)) / (W_OV.norm() * W_KQ.norm(dim=(1, 2)))


def _gpt2(like: AttentionModel) -> AttentionModel:
    """A random GPT-2 of the same size."""
    config = GPT2Config(
        vocab_size=like.d_vocab,
        n_layer=like.n_layers,
        n_head=like.n_heads,
        n_embd=like.d_model,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    kind: Any = GPT2Model
    network = kind._from_config(config, attn_implementation=IMPLEMENTATION)
    return AttentionModel(
        network.eval().requires_grad_(False), like.tokenizer, name="GPT-2, random"
    )
