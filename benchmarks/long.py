"""Texts too long to hold their weights: the pass that reduces them, and what is asked for later."""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, GPT2Config, PreTrainedTokenizerFast, Qwen2Config
from transformers.utils import logging

from benchmarks.measure import Result, at_most, interleaved, ratio, spread
from benchmarks.memory import forget_peak, status
from benchmarks.trace import WORDS, text
from mha_viz.core.measure import measure as metrics_of
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.web.payload import grid_payload

TITLE = "Long texts"
ABOUT = """Networks of the sizes of Qwen2-0.5B (24 layers of 14 heads, 2 key heads, d_model 896) and
GPT-2 (12 layers of 12 heads), random weights, batch 1, float32, CPU. Ratios are over the bare
forward pass with torch's fused attention (`sdpa`), which keeps nothing. "Tiles and metrics" is
`model.trace` with the pooled picture of every head and every metric of every head made in the same
pass, and then eight exact heads; "first picture" is what the app keeps of a text, and the bytes
of its grid of heads. Memory is the peak of a fresh process
above the model and a short text."""
QWEN = Qwen2Config(
    vocab_size=len(WORDS),
    hidden_size=896,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    intermediate_size=4864,
    max_position_embeddings=32_768,
)
GPT2 = GPT2Config(vocab_size=len(WORDS), n_positions=1024, bos_token_id=None, eos_token_id=None)
EVERYTHING = ("pattern", "z", "tiles", "metrics")
PICTURE = ("pattern", "z", "query", "key", "value", "tiles")
# Tokens, bare passes and bytes above the model that a trace with everything may take.
AIMS = ((2048, 1.3, 1e9), (8192, 1.5, 3e9))
HEADS = [(layer, layer % 14) for layer in range(0, 24, 3)]


def measure(repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> list[Result]:
    """Return the lines of the table; `clock` may be the processor's own, on a busy machine."""
    logging.set_verbosity_error()
    results = [_beside_bare("GPT-2's size", GPT2, 1024, 1.15, ("pattern",), repeats, clock)]
    name = "Qwen2-0.5B's size, first picture"
    results.append(_beside_bare(name, QWEN, 2000, 1.3, PICTURE, repeats, clock))
    for n, aim, most in AIMS:
        name = "Qwen2-0.5B's size, tiles and metrics"
        turns = repeats if n < 4096 else 1
        results.append(_beside_bare(name, QWEN, n, aim, EVERYTHING, turns, clock))
        peak = _peak(n)
        results.append(
            Result(
                f"peak above the model, {n:,} tokens",
                f"{peak / 1e6:,.0f} MB",
                aim=f"at most {most / 1e6:,.0f} MB",
                met=peak <= most,
            )
        )
    return results + _parts(AIMS[0][0], clock)


def _beside_bare(
    name: str,
    config: Any,
    n: int,
    aim: float,
    keep: tuple[str, ...],
    repeats: int,
    clock: Callable[[], float],
) -> Result:
    ours, bare = model(config), network(config, "sdpa")
    ids = torch.tensor([ours.tokenizer(text(n))["input_ids"]])

    @torch.inference_mode()
    def plain() -> Any:
        return bare(input_ids=ids, use_cache=False)

    ways: dict[str, Callable[[], Any]] = {"bare": plain, "ours": partial(_traced, ours, n, keep)}
    seconds = interleaved(ways, repeats, clock=clock)
    over = ratio(seconds["ours"], seconds["bare"])
    return Result(
        f"{name}, {n:,} tokens",
        spread(seconds["ours"], 1.0, " s", 2),
        f"bare {spread(seconds['bare'], 1.0, ' s', 2)}",
        f"{over:.2f}",
        f"at most {aim:.2f}",
        at_most(over, aim),
    )


def _traced(ours: AttentionModel, n: int, keep: tuple[str, ...]) -> AttentionRecord:
    record = ours.trace(text(n), keep=keep)
    assert len(record.tokens) == n
    if keep == PICTURE:
        assert grid_payload(record)
    if "metrics" in keep:
        assert record.tiles().shape[:2] == (24, 14) and metrics_of(record)
        for place in HEADS:
            assert record[place].shape == (n, n)
    return record


def _parts(n: int, clock: Callable[[], float]) -> list[Result]:
    record = model(QWEN).trace(text(n), keep=("pattern",))
    ways: dict[str, tuple[Callable[[], Any], float | None]] = {
        "one row of every head": (lambda: record.from_token(n - 7), 0.05),
        "a region of 512 x 512 of one head": (
            lambda: record.region(11, 5, slice(n - 512, n), slice(512)),
            0.1,
        ),
        "one exact head": (lambda: record[11, 5], None),
    }
    seconds = interleaved({name: way for name, (way, _) in ways.items()}, 9, clock=clock)
    return [
        Result(
            f"{name}, {n:,} tokens",
            spread(seconds[name], 1e3, " ms", 1),
            aim="" if aim is None else f"at most {aim * 1e3:.0f} ms",
            met=None if aim is None else at_most(sorted(seconds[name])[4], aim),
        )
        for name, (_, aim) in ways.items()
    ]


def _peak(n: int) -> int:
    command = [sys.executable, "-m", "benchmarks.long", str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring memory failed:\n{done.stderr[-2000:]}")
    return int(done.stdout.split()[-1])


def peak(n: int) -> int:
    ours = model(QWEN)
    _traced(ours, 256, EVERYTHING[:2])
    gc.collect()
    forget_peak()
    before = status("VmRSS")
    _traced(ours, n, EVERYTHING)
    return status("VmHWM") - before


def network(
    config: Any,
    implementation: str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Any:
    """The network of a config, always with the same random weights, made on a device."""
    torch.manual_seed(0)
    own = deepcopy(config)  # which the network writes its kind of attention to
    with torch.device(device):
        made = AutoModel.from_config(own, attn_implementation=implementation, dtype=dtype)
    return made.eval()


def model(
    config: Any, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> AttentionModel:
    """The same network as an AttentionModel, with a token for each two-letter word."""
    inside = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    inside.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inside, unk_token="[UNK]", pad_token="[PAD]"
    )
    return AttentionModel(network(config, "eager", device, dtype), tokenizer, name="random")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    print(peak(parser.parse_args().n))
