"""Lab 8: the time that attention takes on this machine, by text length."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mha_viz.core.attention.attention import attention
from mha_viz.errors import ArgumentError
from mha_viz.learn.labs.cost.numbers import Sizes

LENGTHS = tuple(2**i for i in range(6, 13))  # 64 to 4,096
MAX_BYTES = 2**26  # of weights that exist at once: longer texts are done some heads at a time
MAX_LENGTH, MAX_WIDTH = 4096, 1024
MOST_RUNS, PATIENCE = 15, 0.3  # runs, and seconds after which no more are begun
OnProgress = Callable[[int, int], None]
WAYS = ("projections", "weights", "fused")


@dataclass(frozen=True)
class Measured:
    """Medians of repeated runs; a number for each length.

    Args:
        lengths: n.
        seconds: by way: "projections" (W_Q, W_K, W_V and W_O), "weights" (scores, softmax, weights
            times V, with the weights in memory), "fused" (the same without ever keeping them).
        fastest: the shortest of the runs, by way: what other work on the machine disturbed least.
        pattern: bytes of the weights, counted from the tensors.
        speed: products that this machine adds up in a second, in one large matrix product.
        threads: that torch used.
    """

    lengths: tuple[int, ...]
    seconds: dict[str, list[float]]
    fastest: dict[str, list[float]]
    pattern: list[int]
    speed: float
    threads: int


@torch.inference_mode()
def measure(
    d_model: int,
    n_heads: int,
    lengths: Sequence[int] = LENGTHS,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Measured:
    """Time attention of a random layer for texts of growing length.

    Raises:
        ArgumentError, ShapeError: sizes outside their range, heads that do not divide.

    >>> measure(8, 2, [4, 8]).pattern
    [128, 512]
    """
    for n in lengths:
        Sizes(n, d_model, n_heads)
    if not lengths or max(lengths) > MAX_LENGTH or d_model > MAX_WIDTH:
        raise ArgumentError(
            f"Give lengths of at most {MAX_LENGTH:,} tokens and a width of at most {MAX_WIDTH:,}, "
            f"got {list(lengths)} and {d_model:,}: more would take too long."
        )
    random = torch.Generator().manual_seed(seed)
    total, done = len(WAYS) * len(lengths) + 1, 0

    def report() -> None:
        if on_progress is not None:
            on_progress(done, total)

    square = torch.ones(1024, 1024)
    speed = len(square) ** 3 / min(_timed(partial(torch.mm, square, square.clone()), report))
    fastest: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    pattern = []
    for n in lengths:
        tokens = torch.randn(n, d_model, generator=random)
        weights = torch.randn(d_model, 4 * d_model, generator=random) / d_model**0.5
        joined = tokens @ weights[:, : 3 * d_model]
        q, k, v = (
            part.unflatten(1, (n_heads, -1)).transpose(0, 1).contiguous()
            for part in joined.chunk(3, 1)
        )
        ways: dict[str, Callable[[], object]] = {
            "projections": partial(torch.mm, tokens, weights),
            "weights": partial(_kept, q, k, v),
            # with a batch axis, without which torch has no fused kernel and makes all weights
            "fused": partial(attention, q[None], k[None], v[None], need_pattern=False),
        }
        pattern.append(_kept(q, k, v))
        for way, run in ways.items():
            done += 1
            times = _timed(run, report, warm=way != "weights")  # which has just been run
            seconds[way].append(statistics.median(times))
            fastest[way].append(min(times))
    done = total
    report()
    return Measured(tuple(lengths), seconds, fastest, pattern, speed, torch.get_num_threads())


def exponent(places: Sequence[int], seconds: Sequence[float], least: int = 0) -> float:
    """Fit the slope of log time over log n by least squares: 1 is linear, 2 quadratic.

    Places below `least` do not count: they measure how calls begin.

    >>> round(exponent([64, 128, 256], [1.0, 4.0, 16.0]), 6)
    2.0
    """
    pairs = [(p, s) for p, s in zip(places, seconds, strict=True) if p >= least]
    if len(pairs) < 2:
        raise ArgumentError("Two places are the least through which a line can be drawn.")
    logs = np.log(np.array(pairs, dtype=np.float64))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def _kept(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Run attention that keeps its weights, in groups of heads; return the weights' bytes."""
    n_heads, n, _ = q.shape
    group = heads_at_once(n, n_heads)
    size = 0
    for i in range(0, n_heads, group):
        part = slice(i, i + group)
        _, pattern = attention(q[part], k[part], v[part])
        assert pattern is not None
        size += pattern.numel() * pattern.element_size()
    return size


def heads_at_once(n: int, n_heads: int) -> int:
    """Return the number of heads whose float32 weights fit `MAX_BYTES`, at least one.

    >>> heads_at_once(4096, 8), heads_at_once(64, 8)
    (1, 8)
    """
    return max(1, min(n_heads, MAX_BYTES // (4 * n**2)))


def _timed(run: Callable[[], object], report: Callable[[], None], warm: bool = True) -> list[float]:
    """Time three runs or, where they are short, more; seconds."""
    if warm:
        run()  # the first time is slower: memory has to be found
    times: list[float] = []
    while len(times) < 3 or (len(times) < MOST_RUNS and sum(times) < PATIENCE):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        report()
    return times
