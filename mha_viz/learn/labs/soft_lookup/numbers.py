"""Lab 1: attention as soft lookup, and why scores are divided by sqrt(d_k)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.dot_product import attention, scores, softmax
from mha_viz.core.metrics import METRICS
from mha_viz.errors import ArgumentError, ShapeError

WORDS = ("cat", "dog", "fox", "car", "bus", "sun", "sky", "tree")
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Lookup:
    """Every number between queries and output, one head.

    Args:
        dots: Q K^T, (query, key). scores: dots times the scale. pattern: softmax of the scores.
        output: pattern V, (query, d_value).
        scale: what dots were multiplied by.
    """

    dots: Tensor
    scores: Tensor
    pattern: Tensor
    output: Tensor
    scale: float


def lookup(
    query: Annotated[Tensor, "query d_k"],
    key: Annotated[Tensor, "key d_k"],
    value: Annotated[Tensor, "key d_value"],
    temperature: float = 1.0,
) -> Lookup:
    """Compute softmax(Q K^T / (T sqrt(d_k))) V with all that comes in between.

    A temperature above 1 makes weights more equal; towards 0 the largest score takes all.

    Raises:
        ArgumentError: a temperature that is not above 0 and finite. ShapeError: no such matrices.

    Source: Vaswani et al. 2017, eq. 1; the temperature is usual, not of the paper.

    >>> one = torch.eye(2)
    >>> lookup(one, one, one, temperature=0.01).pattern.diagonal()
    tensor([1., 1.])
    """
    if not 0 < temperature < math.inf:
        raise ArgumentError(f"temperature must be above 0 and finite, got {temperature}.")
    if any(matrix.ndim != 2 for matrix in (query, key, value)):
        raise ShapeError("query, key and value must be matrices: (tokens, width).")
    scale = 1 / (temperature * math.sqrt(query.shape[-1]))
    query, key, value = query[None], key[None], value[None]  # one head
    z, pattern = attention(query, key, value, scale=scale)
    assert pattern is not None
    dots, scaled = (scores(query, key, scale=factor)[0] for factor in (1.0, scale))
    return Lookup(dots, scaled, pattern[0], z[0], scale)


def example(n: int, d_k: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Draw Q, K (token, d_k) and V (token, 2) with one decimal; V is the same for any d_k.

    Raises:
        ArgumentError: n outside 3..8 or d_k outside 1..8.

    >>> [tuple(matrix.shape) for matrix in example(3, 4)]
    [(3, 4), (3, 4), (3, 2)]
    """
    if not (3 <= n <= 8 and 1 <= d_k <= 8):
        raise ArgumentError(f"the lab takes 3 to 8 tokens of width 1 to 8, got {n} and {d_k}.")
    random = torch.Generator().manual_seed(seed)
    value, query, key = (  # values first: so they do not depend on d_k
        (torch.randn(n, width, generator=random) * 10).round() / 10 for width in (2, d_k, d_k)
    )
    return query, key, value


def score_spread(
    widths: Sequence[int] = WIDTHS, n_keys: int = 16, n_queries: int = 512, seed: int = 0
) -> dict[str, tuple[list[float], list[float]]]:
    """Measure variance and saturation for random Q and K with entries of mean 0 and variance 1.

    Returns:
        Each measure of q.k for each width, and of q.k / sqrt(d_k). "variance" over all pairs: in
        theory d_k, and 1. "confidence": mean largest weight of a row, in [1 / keys, 1].
        "gradient": mean size of d pattern / d score, from which a head learns: mean over rows of
        sum_k a_k (1 - a_k), in [0, 1 - 1 / keys].

    Raises:
        ArgumentError: no width, or one outside 1..4096; fewer than 2 keys or 1 query.

    Source: Vaswani et al. 2017, section 3.2.1 and its footnote 4, which state the variance.

    >>> plain, scaled = score_spread([4, 64], n_keys=8, n_queries=64)["variance"]
    >>> plain[1] > 10 * scaled[1]
    True
    """
    if not widths or not all(1 <= d_k <= 4096 for d_k in widths):
        raise ArgumentError("widths must lie in 1..4096, and there must be one.")
    if n_keys < 2 or n_queries < 1:
        raise ArgumentError(f"2 keys and 1 query are the least, got {n_keys} and {n_queries}.")
    random = torch.Generator().manual_seed(seed)
    names = "variance", "confidence", "gradient"
    measures: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}
    for d_k in widths:
        query = torch.randn(1, n_queries, d_k, generator=random)
        key = torch.randn(1, n_keys, d_k, generator=random)
        for way, scale in enumerate((1.0, d_k**-0.5)):
            for name, number in zip(names, _saturation(query, key, scale), strict=True):
                measures[name][way].append(number)
    return measures


def _saturation(
    query: Float[Tensor, "1 query d_k"], key: Float[Tensor, "1 key d_k"], scale: float
) -> tuple[float, float, float]:
    """Compute variance of scores, largest weight, and the gradient that softmax lets through."""
    raw = scores(query, key, scale=scale)
    pattern, variance = softmax(raw), raw.var(correction=0)
    confidence = METRICS["confidence"].function(pattern[None])
    gradient = (pattern * (1 - pattern)).sum(-1).mean()
    return float(variance), float(confidence), float(gradient)
