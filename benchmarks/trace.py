"""Cost of keeping every pattern: our forward pass beside transformers' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from string import ascii_lowercase
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
from transformers.utils import logging

from benchmarks.measure import Result, at_most, interleaved, ratio, spread
from mha_viz.engine.attention_function import IMPLEMENTATION, register
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe

WORDS = ["[PAD]", "[UNK]", *(a + b for a, b in product(ascii_lowercase, repeat=2))]
AIMS = {32: 1.0, 128: 0.95, 512: 1.05}  # of the record over the bare pass, by tokens
REPEATS = {32: 15, 128: 9, 512: 5}
TITLE = "Forward pass with every attention weight kept"
ABOUT = """BERT-base size (12 layers, 12 heads, d_model 768; random weights), batch 1, float32, CPU.
Ratios are over the bare forward pass with torch's fused attention (`sdpa`), which keeps nothing.
`model.trace` tokenises, runs up to the last layer's attention (nothing after it is kept, so
nothing after it is computed), checks the weights and gives the record; the pass to
its end stands beside it, and so does transformers' own way to the weights (`eager`)."""


def measure(
    lengths: Sequence[int] = (32, 128, 512), repeats: int | None = None, **sizes: int
) -> list[Result]:
    """Ratios for each length; `sizes` go into BertConfig."""
    logging.set_verbosity_error()
    ours = traced_model(**sizes)
    sdpa, eager = network("sdpa", **sizes), network("eager", **sizes)
    results = []
    for n in lengths:
        ids = torch.tensor([ours.tokenizer.convert_tokens_to_ids(text(n).split())])
        ways = _ways(ours, sdpa, eager, ids)
        seconds = interleaved(ways, repeats or REPEATS.get(n, 5), warm_up=2)
        bare = spread(seconds["bare"], 1e3, " ms", 1)
        aim = AIMS.get(n)
        for way in ("trace", "whole pass", "eager"):
            over = ratio(seconds[way], seconds["bare"])
            aimed = way == "trace" and aim is not None
            name = {"trace": "`model.trace`", "whole pass": "ours, to its end"}.get(way, "`eager`")
            results.append(
                Result(
                    measure=f"{name}, {n} tokens",
                    ours=spread(seconds[way], 1e3, " ms", 1),
                    beside=f"bare {bare}",
                    ratio=f"{over:.2f}",
                    aim=f"at most {aim:.2f}" if aimed else "",
                    met=at_most(over, aim) if aimed and aim is not None else None,
                )
            )
    return results


def _ways(
    ours: AttentionModel, sdpa: BertModel, eager: BertModel, ids: Tensor
) -> dict[str, Callable[[], Any]]:
    sentence, n_layers = text(ids.shape[1]), ours.n_layers

    @torch.inference_mode()
    def bare() -> Any:
        return sdpa(input_ids=ids)

    @torch.inference_mode()
    def whole_pass() -> Any:
        probe = Probe(n_layers=n_layers)
        return ours.network(input_ids=ids, mha_probe=probe), probe

    @torch.inference_mode()
    def output_attentions() -> Any:
        return eager(input_ids=ids, output_attentions=True)

    def trace() -> Any:
        record = ours.trace(sentence, keep=("pattern",))
        assert record.pattern.shape[-1] == ids.shape[1]
        return record

    return {
        "bare": bare,
        "trace": trace,
        "whole pass": whole_pass,
        "eager": output_attentions,
    }


def network(implementation: str, **sizes: int) -> BertModel:
    """BERT, of base size where `sizes` say nothing else, always with the same random weights."""
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(WORDS), **sizes)
    kind: Any = BertModel
    return kind._from_config(
        config, attn_implementation=implementation, add_pooling_layer=False
    ).eval()


def traced_model(**sizes: int) -> AttentionModel:
    """The same network as an AttentionModel, with a token for each two-letter word."""
    register()
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    inside = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inside.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inside, unk_token="[UNK]", pad_token="[PAD]", model_max_length=512
    )
    return AttentionModel(network(IMPLEMENTATION, **sizes), tokenizer, name="bert-base, random")


def text(n: int) -> str:
    """A text of n tokens."""
    return " ".join(WORDS[2 + i % (len(WORDS) - 2)] for i in range(n))
