"""The cost of measuring a corpus, beside the bare forward passes of the same batches."""

from __future__ import annotations

import copy
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import mha_viz as mv
from benchmarks import study_search
from benchmarks.measure import Result, at_least, interleaved, ratio, spread
from benchmarks.trace import WORDS, network, traced_model
from mha_viz.corpus.measure.batches import Batch, batches
from mha_viz.corpus.measure.shard import Settings, measure_shard
from mha_viz.corpus.sources.source import SHARD_TEXTS, Item
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.run import padded

TITLE = "Study"
ABOUT = (
    "Texts of about 128 tokens through BERT-base's size with random weights: every metric of every "
    "head on every text, with the profiles, histograms and edges that examples come from, beside "
    "the bare forward passes of the same batches, one thread for each core. The ratio is of "
    "throughput: 1 is as fast as the bare passes. With baselines a second, untrained network runs, "
    "too; what chance alone scores needs none. What is searched is made up: edges of sentences of "
    "12 tokens through a model of tiny-bert's size."
)
SMALL_AIM = 1.5  # times a loop over single texts
SENTENCE = "The old man who lived by the sea told the children a story about a ship. "
ALONE = Settings(pairs=False, baselines=False)
WAYS = {
    "every metric, profiles, edges": (ALONE, 0.85),
    "the same and four pair matrices": (Settings(baselines=False), 0.75),
    "the same without pairs, with chance": (Settings(pairs=False), None),
}


def measure(
    n_texts: int = 16,
    repeats: int = 3,
    batch_tokens: int = 2048,
    n_searched: int = 100_000,
    n_small: int = SHARD_TEXTS,
    **sizes: int,
) -> list[Result]:
    model = traced_model(**sizes)
    bare = network("sdpa", **sizes)
    items = prose(n_texts)
    found, _ = batches(model.reader, items, batch_tokens)
    ways: dict[str, Callable[[], Any]] = {"bare": lambda: passes(bare, model, found)}
    for name, (settings, _) in WAYS.items():
        own = replace(settings, batch_tokens=batch_tokens)
        ways[name] = lambda own=own: measure_shard(model, items, own)
    seconds = interleaved(ways, repeats)
    n_padded, n_real = (sum(getattr(b, name) for b in found) for name in ("n_padded", "n_real"))
    return [
        *(_result(name, seconds, aim, n_texts) for name, (_, aim) in WAYS.items()),
        Result(f"tokens run for each real one, {n_texts} texts", f"{n_padded / n_real:.3f}"),
        _beside_a_loop(n_small, repeats),
        *study_search.measure(n_searched, repeats),
    ]


@torch.inference_mode()
def passes(bare: torch.nn.Module, model: AttentionModel, found: Sequence[Batch]) -> None:
    """The forward passes of the batches, whose results nobody wants."""
    for batch in found:
        bare(**padded(model.network, batch.encoded, 0))


def prose(n_texts: int, length: int = 128) -> list[Item]:
    """Texts whose lengths and words are drawn; some words are frequent, as in prose."""
    dice = random.Random(0)
    weights = [1 / (rank + 1) for rank in range(len(WORDS) - 2)]
    found = []
    for number in range(n_texts):
        n = max(8, round(dice.gauss(length, length / 4)))
        words = dice.choices(WORDS[2:], weights, k=n)
        found.append(Item(number, " ".join(words), f"prose:{number + 1}"))
    return found


def _beside_a_loop(n_texts: int, repeats: int) -> Result:
    """The shipped tiny-bert, beside what people write today for some of the metrics."""
    model = mv.load("tiny-bert")
    eager = copy.deepcopy(model.network)
    eager.set_attn_implementation("eager")
    items = [Item(i, SENTENCE * (1 + i % 3), "") for i in range(n_texts)]
    ways = {
        "ours": lambda: measure_shard(model, items, ALONE).tables,
        "loop": lambda: loop(eager, model.tokenizer, [item.text for item in items]),
    }
    seconds = interleaved(ways, repeats)
    ours, theirs = ([n_texts / one for one in seconds[name]] for name in ("ours", "loop"))
    times = ratio(seconds["loop"], seconds["ours"])
    return Result(
        f"tiny-bert, a part of {n_texts} texts: every metric, profiles, edges",
        spread(ours, unit=" texts/s"),
        f"{spread(theirs, unit=' texts/s')} by a loop with `output_attentions`, six metrics",
        f"{times:.2f} times as fast",
        f"at least {SMALL_AIM}",
        at_least(times, SMALL_AIM),
    )


@torch.inference_mode()
def loop(network: Any, tokenizer: Any, texts: Sequence[str]) -> np.ndarray:
    """One text at a time through numpy: (text, metric, layer, head)."""
    found = []
    for text in texts:
        output = network(**tokenizer(text, return_tensors="pt"), output_attentions=True)
        a = np.stack([layer[0].numpy() for layer in output.attentions])
        at = np.arange(a.shape[-1])
        scores = [
            -(a * np.log(a + 1e-30)).sum(-1).mean(-1),
            a.max(-1).mean(-1),
            (a * np.abs(at[:, None] - at)).sum((-1, -2)) / len(at),
            *(np.diagonal(a, offset, -2, -1).mean(-1) for offset in (-1, 0, 1)),
        ]
        found.append(np.stack(scores))
    return np.stack(found)


def _result(name: str, seconds: dict[str, list[float]], aim: float | None, n_texts: int) -> Result:
    throughput = ratio(seconds["bare"], seconds[name])
    rates = [n_texts / one for one in seconds[name]]
    return Result(
        name,
        spread(rates, unit=" texts/s", digits=1),
        f"{n_texts / statistics.median(seconds['bare']):.1f} texts/s bare",
        f"{throughput:.2f}",
        "" if aim is None else f"at least {aim}",
        None if aim is None else at_least(throughput, aim),
    )
