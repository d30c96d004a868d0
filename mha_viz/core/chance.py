"""How alike heads are by chance: what a likeness, or a lack of diversity, has to exceed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mha_viz.core.measure import head_similarity
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.parameters import diversity
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.core.record import AttentionRecord

HELD = 0.95  # share of the chance pairs that a band holds
LEAST = 5  # rows to permute: of fewer, more than one order in forty is the one that they have
_HEADS, _ORDERS = 32, 8  # drawn: some 8,000 pairs, in the time of one matrix of BERT's heads


class Band(NamedTuple):
    """Where 95 % of the pairs lie that are alike by chance only, in the measure's own numbers."""

    low: float
    high: float

    def edge(self, measure: str) -> float:
        """The distance (see `as_distances`) below which a pair is more alike than the band.

        >>> Band(-0.2, 0.25).edge("cka"), Band(0.4, 0.9).edge("hellinger")
        (0.75, 0.4)
        """
        if measure not in LIKENESS:
            return self.low
        signed = measure == "correlation"  # a negative one is a likeness, too
        return 1 - max(self.high, -self.low if signed else 0.0)


def permuted_band(record: AttentionRecord, measure: str, seed: int = 0) -> Band | None:
    """The band of pairs of which one head has its tokens permuted: what it does, but not for whom.

    Rows of z, or of a pattern, change places. Where rows do not see the same keys (a hidden future,
    a window), each row's weights change places among the keys that it sees. Redundancy does not
    know the order of tokens: for it the coordinates change places.

    Args:
        record: any record.
        measure: as for `head_similarity`.
        seed: of the orders, and of the heads that are drawn where there are more than 32.

    Returns:
        The band; None where there are fewer than five things to permute, or no pair has a number.
    """
    made_of = PAIR_MEASURES[measure]
    heads = record.kept(made_of).flatten(0, 1).cpu()
    axis = -1 if measure.startswith("redundancy") else -2
    if heads.shape[axis] < LEAST:
        return None
    dice = torch.Generator().manual_seed(seed)
    heads = heads[torch.randperm(len(heads), generator=dice)[:_HEADS]]
    hidden = (heads == 0).all(0) if made_of == "pattern" else torch.zeros(1, dtype=torch.bool)
    off = ~torch.eye(len(heads), dtype=torch.bool)
    found = []
    for _ in range(_ORDERS):
        if hidden.any():
            order = torch.rand(hidden.shape, generator=dice).masked_fill(hidden, 1.0).argsort(-1)
            moved = heads.gather(-1, order.expand_as(heads))
        else:
            order = torch.randperm(heads.shape[axis], generator=dice)
            moved = heads.index_select(axis, order)
        matrix = METRICS[measure].function(torch.cat([heads, moved])[None])
        found.append(matrix[: len(heads), len(heads) :][off])
    return _band(torch.cat(found))


def untrained_band(record: AttentionRecord, measure: str) -> Band | None:
    """The band of the pairs of an untrained copy's heads.

    Args:
        record: of the same text, through `untrained_copy` of the model.
        measure: as for `head_similarity`.

    Returns:
        The band; None where no pair has a number.
    """
    matrix = head_similarity(record, measure)
    return _band(matrix[torch.ones_like(matrix, dtype=torch.bool).triu(1)])


def diversity_band(n_heads: int, d_model: int, d_head: int, seeds: int = 20) -> tuple[float, Band]:
    """D (see `diversity`) of independent Gaussian matrices of these shapes: its mean and its band.

    Args:
        n_heads: heads of the layer, 2 or more.
        d_model: rows of each head's matrix.
        d_head: columns.
        seeds: how often all matrices are drawn; the band is 1.96 standard deviations wide on either
            side.

    >>> mean, band = diversity_band(8, 64, 8)
    >>> round(mean, 2), band.low < mean < band.high
    (0.96, True)
    """
    found = torch.empty(seeds, dtype=torch.float64)
    for seed in range(seeds):
        dice = torch.Generator().manual_seed(seed)
        found[seed] = diversity(torch.randn(n_heads, d_model, d_head, generator=dice))
    mean, half = float(found.mean()), 1.96 * float(found.std())
    return mean, Band(mean - half, mean + half)


def _band(values: Tensor) -> Band | None:
    known = values[values.isfinite()].double().cpu()
    if not len(known):
        return None
    ends = torch.tensor([(1 - HELD) / 2, (1 + HELD) / 2], dtype=torch.float64)
    return Band(*known.quantile(ends).tolist())
