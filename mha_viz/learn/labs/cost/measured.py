"""Lab 8: the time that attention takes on this machine, by text length."""

from collections.abc import Callable, Sequence
from functools import partial
from timeit import repeat

import numpy as np
import torch

from mha_viz.core.attention.attention import attention
from mha_viz.errors import ArgumentError

D_MODEL, N_HEADS, RUNS = 256, 8, 5
LENGTHS = tuple(2**i for i in range(6, 12))  # 64 to 2,048
WAYS = ("projections", "weights", "fused")


@torch.inference_mode()
def measure(
    lengths: Sequence[int] = LENGTHS, on_step: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Time a layer of random numbers, 256 wide with 8 heads, for texts of growing length.

    Args:
        lengths: n, at most 2,048: the weights of as many tokens take 134 MB.
        on_step: called with the number of measurements done, three for each length.

    Returns:
        Seconds of the fastest of 5 runs, which other work disturbs least, for each length:
        "projections" (W_Q, W_K, W_V and W_O), "weights" (scores, softmax, weights times V, with all
        weights in memory) and "fused" (the same without ever keeping them).

    Raises:
        ArgumentError: no lengths, or lengths outside of 1..2,048.

    >>> list(measure([4, 8]))
    ['projections', 'weights', 'fused']
    """
    if not lengths or not all(1 <= n <= LENGTHS[-1] for n in lengths):
        raise ArgumentError(f"Give lengths of 1 to {LENGTHS[-1]:,} tokens, got {list(lengths)}.")
    random = torch.Generator().manual_seed(0)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for n in lengths:
        tokens = torch.randn(n, D_MODEL, generator=random)
        weights = torch.randn(D_MODEL, 4 * D_MODEL, generator=random) / D_MODEL**0.5
        joined = tokens @ weights[:, : 3 * D_MODEL]
        # with a batch axis, without which torch has no fused kernel and makes all weights
        q, k, v = (
            part.unflatten(1, (N_HEADS, -1)).transpose(0, 1)[None].contiguous()
            for part in joined.chunk(3, 1)
        )
        runs: tuple[Callable[[], object], ...] = (
            partial(torch.mm, tokens, weights),
            partial(attention, q, k, v),
            partial(attention, q, k, v, need_pattern=False),
        )
        for way, run in zip(WAYS, runs, strict=True):
            run()  # the first time is slower: memory has to be found
            seconds[way].append(min(repeat(run, number=1, repeat=RUNS)))
            if on_step is not None:
                on_step(sum(map(len, seconds.values())))
    return seconds


def exponent(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    """Fit the slope of log time over log n by least squares: 1 is linear, 2 quadratic.

    >>> round(exponent([64, 128, 256], [1.0, 4.0, 16.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])
