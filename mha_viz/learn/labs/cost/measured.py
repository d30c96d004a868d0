"""Lab 8: the time that attention takes on this machine, by text length and number of heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from timeit import repeat

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from mha_viz.core.attention.dot_product import attention, fused_z
from mha_viz.errors import ArgumentError
from mha_viz.learn.labs.cost.numbers import Sizes

LENGTHS = tuple(2**i for i in range(6, 13))  # 64 to 4,096
MAX_WIDTH = 1024
MAX_BYTES = 2**26  # of weights that exist at once: longer texts are done some heads at a time
RUNS = 5
WAYS = ("projections", "weights", "fused")
Run = tuple[int, int, int]  # tokens, d_model, heads


@dataclass(frozen=True)
class Measured:
    """Times of layers, and the speed of the machine that took them.

    Args:
        seconds: a row for each layer, the median of 5 runs; columns: "projections" (W_Q, W_K, W_V
            and W_O), "weights" (scores, softmax, weights times V, with the weights in memory) and
            "fused" (the same without ever keeping them).
        fastest: the shortest of the runs, by way, which other work disturbs least.
        pattern: bytes of the weights of each layer, counted from the tensors.
        speed: products that this machine adds up in a second, in one large matrix product.
        threads: that torch used.
    """

    seconds: pd.DataFrame
    fastest: pd.DataFrame
    pattern: list[int]
    speed: float
    threads: int

    def part(self, runs: slice) -> "Measured":
        """Return the times of some of the layers."""
        seconds, fastest, pattern = self.seconds[runs], self.fastest[runs], self.pattern[runs]
        return replace(self, seconds=seconds, fastest=fastest, pattern=pattern)


@torch.inference_mode()
def measure(
    runs: Sequence[Run], seed: int = 0, on_step: Callable[[int], None] | None = None
) -> Measured:
    """Time layers of random numbers.

    Args:
        runs: tokens (at most 4,096), d_model (at most 1,024) and heads of each layer.
        seed: of the numbers, whose values make no difference to the times.
        on_step: called with the number of measurements done, three for each layer.

    Raises:
        ArgumentError: no layer, or sizes outside of that. ShapeError: heads that do not divide.

    >>> measure([(4, 8, 2), (8, 8, 2), (8, 8, 4)]).pattern
    [128, 512, 1024]
    """
    for n, d_model, n_heads in runs:
        Sizes(n, d_model, n_heads)
    if not runs or not all(n <= LENGTHS[-1] and d <= MAX_WIDTH for n, d, _ in runs):
        raise ArgumentError(
            f"Give layers of at most {LENGTHS[-1]:,} tokens of width {MAX_WIDTH:,}, got "
            f"{list(runs)}: more would take too long."
        )
    random = torch.Generator().manual_seed(seed)
    square = torch.ones(1024, 1024)
    speed = len(square) ** 3 / min(repeat(partial(torch.mm, square, square), number=1, repeat=3))
    times: list[list[float]] = []  # of the runs, a way of a layer after the other
    pattern = []
    for n, d_model, n_heads in runs:
        tokens = torch.randn(n, d_model, generator=random)
        weights = torch.randn(d_model, 4 * d_model, generator=random) / d_model**0.5
        joined = tokens @ weights[:, : 3 * d_model]
        q, k, v = (
            part.unflatten(1, (n_heads, -1)).transpose(0, 1).contiguous()
            for part in joined.chunk(3, 1)
        )
        ways: tuple[Callable[[], object], ...] = (
            partial(torch.mm, tokens, weights),
            partial(_pattern_bytes, q, k, v),
            # with a batch axis, without which torch has no fused kernel and makes all weights
            partial(fused_z, q[None], k[None], v[None]),
        )
        pattern.append(_pattern_bytes(q, k, v))
        for run in ways:
            run()  # the first time is slower: memory has to be allocated
            times.append(repeat(run, number=1, repeat=RUNS))
            if on_step is not None:
                on_step(len(times))
    seconds = np.array(times).reshape(len(runs), len(WAYS), -1)
    median, fastest = (
        pd.DataFrame(part, columns=WAYS) for part in (np.median(seconds, -1), seconds.min(-1))
    )
    return Measured(median, fastest, pattern, speed, torch.get_num_threads())


def _pattern_bytes(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Run attention that keeps its weights, in groups of heads; return the weights' bytes."""
    group = heads_at_once(q.shape[1], len(q))
    size = 0
    for parts in zip(*(part.split(group) for part in (q, k, v)), strict=True):
        _, pattern = attention(*parts)
        assert pattern is not None
        size += pattern.nbytes
    return size


def heads_at_once(n: int, n_heads: int) -> int:
    """Return the number of heads whose float32 weights fit `MAX_BYTES`, at least one.

    >>> heads_at_once(4096, 8), heads_at_once(64, 8)
    (1, 8)
    """
    return max(1, min(n_heads, MAX_BYTES // (4 * n**2)))


def exponent(lengths: Sequence[int], seconds: Sequence[float], least: int = 0) -> float:
    """Fit the slope of log time over log n by least squares: 1 is linear, 2 quadratic.

    Lengths below `least` are left out: there calls take longer to start than their work.

    Raises:
        ArgumentError: fewer than two lengths are left.

    >>> round(exponent([64, 128, 256], [1.0, 4.0, 16.0]), 6)
    2.0
    """
    pairs = [pair for pair in zip(lengths, seconds, strict=True) if pair[0] >= least]
    if len(pairs) < 2:
        raise ArgumentError(
            f"A line needs two lengths of at least {least:,} tokens, got {list(lengths)}."
        )
    x, y = np.log(np.array(pairs).T)
    return float(np.polyfit(x, y, 1)[0])
