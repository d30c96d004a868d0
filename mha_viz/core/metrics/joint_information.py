"""The information that the heads of a layer have together: by pairs, and by random draws.

A query is drawn uniformly, and each head draws one key from that query's row.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.checks import Pattern, check_pattern
from mha_viz.core.metrics.layers import Layers
from mha_viz.errors import ArgumentError

N_DRAWS = 2_000
MAX_PRODUCTS = 5e10  # of one multiplication each, for all pairs; longer texts have none
NO_TARGET = 0.01  # a row whose weights lack more than this to 1 attends to nothing


def shared_information(pattern: Pattern) -> Float[Tensor, "layer head head"]:
    """Compute I(k_i; k_j): the information in the key of one head about that of another.

    One query is drawn for both heads; a head beside itself: two draws from its own row.

    Returns:
        Nats, 0 or more; NaN where the text is too long to go through all pairs.

    Source: the mutual information of the pair's joint distribution, mean_q A_i(q, k) A_j(q, l).

    >>> shared_information(torch.eye(2).expand(1, 2, 2, 2))[0, 0, 1]
    tensor(0.6931)
    """
    pattern, wide = check_pattern(pattern)
    n_layers, n_heads, n_query, n_key = pattern.shape
    if n_layers * n_heads**2 * n_query * n_key**2 > MAX_PRODUCTS:
        return torch.full((n_layers, n_heads, n_heads), torch.nan, dtype=wide)
    shared = []
    for layer in pattern.to(wide):
        alone = torch.special.entr(layer.mean(1)).sum(-1)
        together = torch.stack(
            [torch.special.entr(head.mT @ layer / n_query).sum((-2, -1)) for head in layer]
        )
        shared.append((alone[:, None] + alone - together).clamp(min=0.0))
    return torch.stack(shared)


def sampled_information(
    pattern: Pattern, n_draws: int = N_DRAWS, seed: int = 0
) -> tuple[Layers, Layers]:
    """Estimate a 95 % interval of I(q; k_1 ... k_H), all heads' information about the query.

    For every draw of a query and its keys the probabilities of all queries given those keys are
    exact, so that only their mean entropy is estimated: I = ln(query) - E H(q | keys).

    Returns:
        Lower and upper ends, nats; NaN where a row is zero.

    Raises:
        ShapeError, DTypeError: if it is no pattern. ArgumentError: fewer than 2 draws.

    >>> low, high = sampled_information(torch.full((1, 3, 4, 4), 0.25))
    >>> bool(low.abs() < 1e-6), bool(high.abs() < 1e-6)
    (True, True)
    """
    pattern, wide = check_pattern(pattern)
    if n_draws < 2:
        raise ArgumentError(f"2 draws are the least, got {n_draws}.")
    random = torch.Generator().manual_seed(seed)
    n_query, ends = pattern.shape[-2], []
    for layer in pattern.cpu().to(wide):
        if bool((layer.sum(-1) < 1 - NO_TARGET).any()):
            ends.append((math.nan, math.nan))
            continue
        query = torch.randint(n_query, (n_draws,), generator=random)
        likelihood = torch.zeros(n_draws, n_query, dtype=wide)
        for head in layer:
            key = torch.multinomial(head[query], 1, generator=random)[:, 0]
            likelihood += head.log()[:, key].mT
        remaining = torch.special.entr(likelihood.softmax(-1)).sum(-1)
        half = 1.96 * float(remaining.std()) / math.sqrt(n_draws)
        middle = math.log(n_query) - float(remaining.mean())
        ends.append((middle - half, middle + half))
    low, high = torch.tensor(ends, dtype=wide).unbind(-1)
    return low, high
