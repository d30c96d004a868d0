"""The cost of measuring and comparing heads, beside a forward pass."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from benchmarks.measure import Result, at_most, interleaved, ratio, spread
from benchmarks.memory import mib_by, peak_of
from benchmarks.trace import network, text, traced_model
from mha_viz.core.measure import measure as every_number
from mha_viz.core.metrics.layers import coverage
from mha_viz.core.metrics.output_pairs import cka, correlation, redundancy
from mha_viz.core.metrics.output_weights import output_root
from mha_viz.core.metrics.outputs import effective_rank
from mha_viz.core.metrics.pairs import hellinger, jensen_shannon
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.reports.report import head_report

AIMS = {
    ("report", 128): 0.15,
    ("report", 512): 0.45,
    ("jensen_shannon", 128): 1.0,
}  # over the bare pass
PEAK = 144  # MiB that nothing may take more than, at 512 tokens: as much as the patterns
REPEATS = {128: 21, 512: 5}
SAMPLE = 40  # pairs that a double loop is timed on
TITLE = "Measuring and comparing all heads"
ABOUT = """BERT-base size (12 layers, 12 heads, d_model 768; random weights), batch 1, float32, CPU.
Ratios are over the bare forward pass with torch's fused attention (`sdpa`). "Report" is every
number of every head, from its pattern and its output (norms, variance), as
`measure` gives them, and four matrices of 144 x 144 pairs: `hellinger`, `correlation`,
`redundancy`, `cka`. The root of W_O W_Oᵀ is made once per model and is there. Baselines, labels
and the induction probe are not in it; `head_report` is the whole table: these
numbers with labels, nearest twins (by two of the matrices) and the baselines that take no other
model. Double loops take the definition pair by pair in numpy; they
are timed on 40 pairs drawn at random and scaled up to the 10,296 of them; "Clark et al." is the
divergence of pairs of heads as their analysis computes it.
Peak memory is that of a fresh process, above the patterns, z and weights it holds."""


def measure(
    lengths: Sequence[int] = (128, 512), repeats: int | None = None, **sizes: int
) -> list[Result]:
    """Times for each length, then the peak; `sizes` go into BertConfig."""
    logging.set_verbosity_error()
    ours, sdpa = traced_model(**sizes), network("sdpa", **sizes)
    results = []
    for n in lengths:
        record = ours.trace(text(n), keep=("pattern", "z"))
        ids = torch.tensor([[token.id for token in record.tokens]])
        ways = _ways(record, torch.inference_mode()(partial(sdpa, input_ids=ids)))
        seconds = interleaved(ways, repeats or REPEATS.get(n, 5), warm_up=2)
        results += _times(record, seconds, n)
    if not sizes and Path("/proc/self/status").exists():
        results += _peaks()
    return results


def _ways(record: AttentionRecord, bare: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    pattern, z, W_O = record.pattern, record.require("z"), record.W_O
    heads = partial(every_number, record)

    def matrices() -> Any:
        return hellinger(pattern), correlation(z), redundancy(z), cka(z)

    return {
        "bare": bare,
        "report": lambda: (heads(), matrices()),
        "head_report": partial(head_report, record),
        "every head": heads,
        "root": partial(output_root, tuple(W_O)),
        "effective_rank": partial(effective_rank, z, W_O),
        "four matrices": matrices,
        "jensen_shannon": partial(jensen_shannon, pattern),
        "coverage": partial(coverage, z, W_O),
    }


def _times(record: AttentionRecord, seconds: dict[str, list[float]], n: int) -> list[Result]:
    bare = spread(seconds["bare"], 1e3, " ms", 1)
    titles = {
        "report": "report",
        "every head": "of it every head",
        "four matrices": "of it four matrices",
        "head_report": "`head_report`",
        "root": "once per model: the root of W_O W_Oᵀ",
        "effective_rank": "effective rank of every head",
        "jensen_shannon": "`jensen_shannon`, all pairs",
        "coverage": "`coverage`, all layers",
    }
    results = []
    for way, title in titles.items():
        over, aim = ratio(seconds[way], seconds["bare"]), AIMS.get((way, n))
        results.append(
            Result(
                measure=f"{title}, {n} tokens",
                ours=spread(seconds[way], 1e3, " ms", 1),
                beside=f"bare {bare}",
                ratio=f"{over:.3f}",
                aim="" if aim is None else f"at most {aim:.2f}",
                met=None if aim is None else at_most(over, aim),
            )
        )
    loops = {"four matrices": _four, "jensen_shannon": _clark}
    for way, formula in loops.items():
        theirs = _double_loop(record, formula)
        name = "four matrices by a double loop" if way == "four matrices" else "Clark et al.'s way"
        median = sorted(seconds[way])[len(seconds[way]) // 2]
        results.append(
            Result(
                measure=f"{titles[way].removeprefix('of it ')}, {n} tokens",
                ours=spread(seconds[way], 1e3, " ms", 1),
                beside=f"{name} {theirs:,.1f} s (scaled up)",
                ratio=f"{theirs / median:,.0f} times faster",
            )
        )
    return results


Formula = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Any]


def _double_loop(record: AttentionRecord, formula: Formula) -> float:
    """Seconds for all pairs, from some."""
    patterns = record.pattern.flatten(0, 1).numpy()
    z = record.require("z").flatten(0, 1).numpy()
    pairs = list(combinations(range(len(patterns)), 2))
    sample = random.Random(0).sample(pairs, min(SAMPLE, len(pairs)))
    begin = time.perf_counter()
    for i, j in sample:
        formula(patterns[i], patterns[j], z[i], z[j])
    return (time.perf_counter() - begin) * len(pairs) / len(sample)


def _four(a: np.ndarray, b: np.ndarray, z_a: np.ndarray, z_b: np.ndarray) -> Any:
    norm = np.linalg.norm
    distance = np.sqrt(max(0.0, 1 - np.sqrt(a * b).sum(-1).mean()))
    rho = np.corrcoef(z_a.ravel(), z_b.ravel())[0, 1]
    redundant = norm(z_a @ z_b.T) / np.sqrt(norm(z_a @ z_a.T) * norm(z_b @ z_b.T))
    z_a, z_b = z_a - z_a.mean(0), z_b - z_b.mean(0)
    k_a, k_b = _u_centred(z_a @ z_a.T), _u_centred(z_b @ z_b.T)
    return distance, rho, redundant, (k_a * k_b).sum() / (norm(k_a) * norm(k_b))


def _u_centred(k: np.ndarray) -> np.ndarray:
    """A Gram matrix less its diagonal and its means (Song et al. 2012), which debiases CKA."""
    n = len(k)
    k = k * (1 - np.eye(n))
    sums = k.sum(1)
    k = k - (sums[:, None] + sums) / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    return k * (1 - np.eye(n))


def _clark(a: np.ndarray, b: np.ndarray, *_: np.ndarray) -> Any:
    # smoothed as they do, so that no logarithm is of 0
    a, b = (0.001 / weights.shape[-1] + 0.999 * weights for weights in (a, b))
    mean = (a + b) / 2
    return ((a * np.log(a / mean)).sum(-1) + (b * np.log(b / mean)).sum(-1)).mean() / 2


def _peaks() -> list[Result]:
    names = {"report": "report", "jensen_shannon": "`jensen_shannon`", "coverage": "`coverage`"}
    found = {title: mib_by("benchmarks.report", way) for way, title in names.items()}
    return [
        Result(
            f"peak memory of {title}, 512 tokens",
            f"{mib:,.0f} MiB",
            f"{PEAK} MiB of patterns",
            aim=f"at most {PEAK} MiB",
            met=mib <= PEAK,
        )
        for title, mib in found.items()
    ]


def peak(way: str) -> int:
    """Bytes of resident memory that one way takes at its highest, above what it is given."""
    logging.set_verbosity_error()
    model = traced_model()
    _ways(model.trace(text(16), keep=("pattern", "z")), lambda: None)[way]()
    return peak_of(_ways(model.trace(text(512), keep=("pattern", "z")), lambda: None)[way])


if __name__ == "__main__":
    print(peak(sys.argv[1]))
