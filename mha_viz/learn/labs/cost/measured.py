"""Lab 8: the time that attention takes on this machine, by text length and number of heads."""

from collections.abc import Callable, Sequence
from functools import partial
from timeit import repeat
from typing import NamedTuple

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


class Measured(NamedTuple):
    """Times of layers, and the speed of the machine that took them.

    Args:
        times: a row for each layer, with n, heads, d_k and the bytes of its `pattern`, counted from
            the tensors. "projections" (W_Q, W_K, W_V and W_O), "weights" (scores, softmax, weights
            times V, with the weights in memory) and "fused" (the same without ever keeping them)
            are medians of 5 runs in seconds, and "fastest_projections" and so on the shortest,
            which other work disturbs least.
        speed: products that this machine adds up in a second, in one large matrix product.
        threads: that torch used.
    """

    times: pd.DataFrame
    speed: float
    threads: int


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

    >>> measure([(4, 8, 2), (8, 8, 2), (8, 8, 4)]).times.pattern.tolist()
    [128, 512, 1024]
    """
    sizes = [Sizes(n, d_model, n_heads) for n, d_model, n_heads in runs]
    if not runs or not all(n <= LENGTHS[-1] and d <= MAX_WIDTH for n, d, _ in runs):
        raise ArgumentError(
            f"Give layers of at most {LENGTHS[-1]:,} tokens of width {MAX_WIDTH:,}, got "
            f"{list(runs)}: more would take too long."
        )
    random = torch.Generator().manual_seed(seed)
    square = torch.ones(1024, 1024)
    speed = len(square) ** 3 / min(repeat(partial(torch.mm, square, square), number=1, repeat=3))
    rows: list[dict[str, float]] = []
    for layer in sizes:
        tokens = torch.randn(layer.n, layer.d_model, generator=random)
        weights = torch.randn(layer.d_model, 4 * layer.d_model, generator=random)
        weights /= layer.d_model**0.5
        joined = tokens @ weights[:, : 3 * layer.d_model]
        q, k, v = (
            part.unflatten(1, (layer.n_heads, -1)).transpose(0, 1).contiguous()
            for part in joined.chunk(3, 1)
        )
        calls: tuple[Callable[[], object], ...] = (
            partial(torch.mm, tokens, weights),
            partial(_pattern_bytes, q, k, v),
            # with a batch axis, without which torch has no fused kernel and makes all weights
            partial(fused_z, q[None], k[None], v[None]),
        )
        row: dict[str, float] = {"n": layer.n, "heads": layer.n_heads, "d_k": layer.d_head}
        row["pattern"] = _pattern_bytes(q, k, v)
        rows.append(row)
        for done, (way, call) in enumerate(zip(WAYS, calls, strict=True), 1):
            call()  # the first time is slower: memory has to be allocated
            seconds = repeat(call, number=1, repeat=RUNS)
            row |= {way: float(np.median(seconds)), f"fastest_{way}": min(seconds)}
            if on_step is not None:
                on_step(len(WAYS) * (len(rows) - 1) + done)
    return Measured(pd.DataFrame(rows), speed, torch.get_num_threads())


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


def exponent(times: pd.DataFrame, way: str, least: int = 0) -> float:
    """Fit the slope of log fastest time over log n by least squares: 1 is linear, 2 quadratic.

    Lengths below `least` are left out: there calls take longer to start than their work.

    Raises:
        ArgumentError: fewer than two lengths are left.

    >>> times = pd.DataFrame({"n": [64, 128, 256], "fastest_fused": [1.0, 4.0, 16.0]})
    >>> round(exponent(times, "fused"), 6)
    2.0
    """
    long = times[times.n >= least]
    if len(long) < 2:
        raise ArgumentError(
            f"A line needs two lengths of at least {least:,} tokens, got {list(times.n)}."
        )
    return float(np.polyfit(np.log(long.n), np.log(long[f"fastest_{way}"]), 1)[0])
