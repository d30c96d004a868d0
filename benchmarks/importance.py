"""Cost of every head's importance: in batches with reuse, head by head, and by gradient."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from benchmarks.measure import Result, Skipped, at_least, at_most, interleaved, ratio, spread
from benchmarks.peer import transformer_bridge
from benchmarks.trace import WORDS, text, traced_model
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import HeadEdits, Probe
from mha_viz.interventions.importance import head_importance
from mha_viz.prediction.logits import logits
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import prediction_targets

N_TOKENS = 64
SAMPLE = 9  # heads that the separate passes are timed on
AIMS = {"ablation": 1.5, "gradient": 4.0}
REPEATS = {"causal": 5, "masked": 2}  # of a minute a round, the latter
KINDS = {"causal": "GPT-2 head", "masked": "BERT head"}
TITLE = "The importance of every head"
ABOUT = """12 layers, 12 heads, d_model 768, a vocabulary of 30,522 (random weights), one text of 64
tokens, float32, CPU. `head_importance` by ablation beside 144 separate forward passes of the same
network under one gate each, layer by layer and with all logits, as one would write the loop; of
these 9 heads drawn at random in each round are run and scaled up to 144 and the one with all heads
on. By gradient it is beside one forward pass of the same rows. A masked model hides each token
once, a seventh of the text at a time: its one text is 7 rows, in every column. TransformerLens 4.3
runs the same causal network (`TransformerBridge`, eager attention) with a hook on `hook_z` that
zeroes a head, a pass for each head, scaled up alike; it is measured where
`python -m benchmarks --fetch importance` could download it."""


def measure(repeats: int | None = None, vocabulary: int = 30522, **sizes: int) -> list[Result]:
    """Ratios for a causal and a masked model; `sizes` as `n_layers`, `n_heads`, `d_model`."""
    logging.set_verbosity_error()
    results = []
    for kind in KINDS:
        model = random_model(kind, vocabulary, **sizes)
        lens = in_transformer_lens(model) if kind == "causal" else None
        ways = _ways(model, text(N_TOKENS), lens)
        for way in _ways(model, text(8), lens).values():  # what is done once is done
            way()
        seconds = interleaved(ways, repeats or REPEATS[kind], warm_up=0)
        results += _results(kind, model, seconds)
    return results


def _ways(model: AttentionModel, sentence: str, lens: Any) -> dict[str, Callable[[], Any]]:
    peer = {} if lens is None else {"lens": partial(_by_lens, lens, model, sentence)}
    return peer | {
        "ablation": partial(head_importance, model, sentence, "ablation"),
        "separate": partial(_separate, model, sentence),
        "gradient": partial(head_importance, model, sentence, "gradient"),
        "bare": partial(_pass, model, sentence, ()),
    }


def _separate(model: AttentionModel, sentence: str) -> None:
    """Some of the passes, one for each head."""
    for off in _some(model):
        _pass(model, sentence, [off])


def _some(model: AttentionModel) -> list[tuple[int, int]]:
    """Heads drawn at random."""
    every = [(layer, head) for layer in range(model.n_layers) for head in range(model.n_heads)]
    return random.Random(time.perf_counter()).sample(every, min(SAMPLE, len(every)))


def in_transformer_lens(model: AttentionModel) -> Any:
    """The same network in TransformerLens; None where that is not there."""
    try:
        bridge = transformer_bridge()
    except Skipped:
        return None
    config = deepcopy(model.network.config)  # it says which attention: ours must stay
    network = GPT2LMHeadModel._from_config(config, attn_implementation="eager").eval()
    network.load_state_dict(model.network.state_dict())
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        return bridge.boot_transformers(
            folder, hf_model=network, tokenizer=model.tokenizer, device="cpu"
        )


@torch.inference_mode()
def _by_lens(lens: Any, model: AttentionModel, sentence: str) -> None:
    """Some of its passes, one for each head; the loss by its own way of taking it."""
    ids = model.tokenizer(sentence, return_tensors="pt")["input_ids"]
    for layer, head in _some(model):

        def off(z: torch.Tensor, hook: Any, head: int = head) -> torch.Tensor:
            z[:, :, head] = 0.0
            return z

        place = f"blocks.{layer}.attn.hook_z"
        float(lens.run_with_hooks(ids, fwd_hooks=[(place, off)], return_type="loss"))


@torch.inference_mode()
def _pass(model: AttentionModel, sentence: str, off: Sequence[tuple[int, int]]) -> float:
    """The loss by one pass over the text's rows; no gates where no head is off."""
    targets = prediction_targets(model, sentence)
    prepared = ReplayingPass(model, targets)
    gates = torch.ones(model.n_layers, model.n_heads)
    for layer, head in off:
        gates[layer, head] = 0.0
    probe = Probe((), edits=HeadEdits(gates) if off else None)
    found = logits(model.network, targets.rows, probe, pad=model.tokenizer.pad_token_id or 0)
    return -float(prepared.right(found[prepared.row, prepared.place][None]).mean())


def _results(kind: str, model: AttentionModel, seconds: dict[str, list[float]]) -> list[Result]:
    n_heads = model.n_layers * model.n_heads
    scale = (n_heads + 1) / min(SAMPLE, n_heads)
    separate = [scale * s for s in seconds["separate"]]
    faster = ratio(separate, seconds["ablation"])
    over = ratio(seconds["gradient"], seconds["bare"])
    name = KINDS[kind]
    peers = []
    if "lens" in seconds:
        lens = [scale * s for s in seconds["lens"]]
        peers = [
            Result(
                measure=f"ablation of {n_heads} heads, {name}",
                ours=spread(seconds["ablation"], 1, " s", 1),
                beside=f"TransformerLens {spread(lens, 1, ' s', 1)} (scaled up)",
                ratio=f"{ratio(lens, seconds['ablation']):.2f} times faster",
            )
        ]
    return [
        *peers,
        Result(
            measure=f"ablation of {n_heads} heads, {name}",
            ours=spread(seconds["ablation"], 1, " s", 1),
            beside=f"separate passes {spread(separate, 1, ' s', 1)} (scaled up)",
            ratio=f"{faster:.2f} times faster",
            aim=f"at least {AIMS['ablation']:.1f}",
            met=at_least(faster, AIMS["ablation"]),
        ),
        Result(
            measure=f"gradient, {name}",
            ours=spread(seconds["gradient"], 1e3, " ms", 0),
            beside=f"one forward pass {spread(seconds['bare'], 1e3, ' ms', 0)}",
            ratio=f"{over:.2f}",
            aim=f"at most {AIMS['gradient']:.0f}",
            met=at_most(over, AIMS["gradient"]),
        ),
    ]


def random_model(kind: str, vocabulary: int, **sizes: int) -> AttentionModel:
    """A random network of BERT-base size with a head that predicts tokens."""
    size = {"n_layers": 12, "n_heads": 12, "d_model": 768} | sizes
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1}
    tokenizer = traced_model(**small, intermediate_size=32).tokenizer  # for its words
    tokenizer.mask_token = WORDS[-1]
    torch.manual_seed(0)
    network: Any
    if kind == "causal":
        config: Any = GPT2Config(
            vocab_size=vocabulary,
            n_layer=size["n_layers"],
            n_head=size["n_heads"],
            n_embd=size["d_model"],
        )
        network = GPT2LMHeadModel
    else:
        config = BertConfig(
            vocab_size=vocabulary,
            num_hidden_layers=size["n_layers"],
            num_attention_heads=size["n_heads"],
            hidden_size=size["d_model"],
            intermediate_size=4 * size["d_model"],
        )
        network = BertForMaskedLM
    built = network._from_config(config, attn_implementation=IMPLEMENTATION)
    return AttentionModel(built.eval().requires_grad_(False), tokenizer, name=f"{kind}, random")
