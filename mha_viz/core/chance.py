"""How alike heads are by chance: what a likeness, or a lack of diversity, has to exceed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.asking import ask
from mha_viz.core.measure import as_distances, head_similarity
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.parameters import diversity
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.core.record import AttentionRecord
from mha_viz.core.twins import nearest_others
from mha_viz.core.visible import visible_everywhere

HELD = 0.95  # share of the chance pairs that a band holds
LEAST = 5  # rows to permute: of fewer, more than one order in forty is the one that they have
_ROUNDS, _FEWEST = 20, 5  # in 20 rounds even a lone pair can have a p-value that is small enough
_MOST_WORK = 7e9  # products of numbers: some seconds at 144 heads and 128 tokens
_ROUNDING = 1e-6  # of a distance in float32


class Band(NamedTuple):
    """Where 95 % of the pairs lie that are alike by chance only, in the measure's own numbers."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ChancePairs:
    """Heads that share nothing: how near they come to each other by chance.

    Args:
        band: where 95 % of their pairs lie.
        pairs: distances of their pairs (see `as_distances`), ascending.
        nearest: distances of each of them from the nearest other one, ascending.
    """

    band: Band
    pairs: Float[np.ndarray, "pair"]
    nearest: Float[np.ndarray, "head2"]

    @property
    def edge(self) -> float:
        """The distance below which 2.5 % of these pairs lie."""
        return float(np.quantile(self.pairs, (1 - HELD) / 2))

    def p_pairs(self, apart: Float[np.ndarray, "*pair"]) -> Float[np.ndarray, "*pair"]:
        """How often pairs that share nothing are as near as these.

        Args:
            apart: distances; NaN, not defined, stays NaN.
        """
        return _p_values(apart, self.pairs)

    def p_nearest(self, apart: Float[np.ndarray, "head2"]) -> Float[np.ndarray, "head2"]:
        """How often a head that shares nothing with the others has one of them as near as this.

        The smallest of many distances is small: it is held against the smallest of as many.

        Args:
            apart: distances of heads from the nearest other one; NaN, not defined, stays NaN.
        """
        return _p_values(apart, self.nearest)


def permuted_pairs(record: AttentionRecord, measure: str, seed: int = 0) -> ChancePairs | None:
    """The pairs of heads whose tokens are permuted, each head in an order of its own.

    They do what the record's heads do, but not for whom. Rows of z, or of a pattern, change places.
    Where rows do not see the same keys (a hidden future, a window), each row's weights change
    places among the keys that it sees. Redundancy does not know the order of tokens: for it the
    coordinates change places.

    All heads are permuted anew 20 times, where that is much work fewer times, but five at least.

    Args:
        record: any record.
        measure: as for `head_similarity`.
        seed: of the orders, 0 or more.

    Returns:
        None where there are fewer than five things to permute, or no pair has a number.
    """
    made_of = PAIR_MEASURES[measure]
    heads = record.kept(made_of).flatten(0, 1).float().cpu().numpy()
    coordinates = measure.startswith("redundancy")
    if heads.shape[2 if coordinates else 1] < LEAST:
        return None
    seen = visible_everywhere(record).cpu().numpy() if made_of == "pattern" else np.ones(1, bool)
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(int(np.clip(_MOST_WORK // (len(heads) * heads.size), _FEWEST, _ROUNDS))):
        ask()
        if not seen.all():
            moved = _among_seen(heads, seen, dice)
        elif coordinates:
            moved = _in_new_order(heads.swapaxes(1, 2), dice).swapaxes(1, 2)
        else:
            moved = _in_new_order(heads, dice)
        found.append(METRICS[measure].function(torch.from_numpy(np.ascontiguousarray(moved))[None]))
    return _chance_pairs(found, measure)


def untrained_pairs(record: AttentionRecord, measure: str) -> ChancePairs | None:
    """The pairs of an untrained copy's heads.

    It is a baseline of what heads write. Of patterns it is none: before training nearly all rows
    are near uniform, so that all patterns are nearly the same.

    Args:
        record: of the same text, through `untrained_copy` of the model.
        measure: of outputs, as for `head_similarity`.

    Returns:
        None where no pair has a number.
    """
    return _chance_pairs([head_similarity(record, measure)], measure)


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


def _in_new_order(heads: NDArray[np.float32], dice: np.random.Generator) -> NDArray[np.float32]:
    """Each head's rows in an order of its own."""
    every = np.arange(len(heads))[:, None]
    orders = dice.permuted(np.tile(np.arange(heads.shape[1]), (len(heads), 1)), axis=1)
    return heads[every, orders]


def _among_seen(
    heads: NDArray[np.float32], seen: NDArray[np.bool_], dice: np.random.Generator
) -> NDArray[np.float32]:
    """Each row's weights in an order of its own among the keys that it sees."""
    moved = heads.reshape(len(seen), -1, *heads.shape[1:]).copy()
    masks, which = np.unique(seen, axis=0, return_inverse=True)  # layers mostly see the same
    for number, mask in enumerate(masks):
        layers = np.flatnonzero(which == number)
        for query, keys in enumerate(map(np.flatnonzero, mask)):
            at = np.ix_(layers, np.arange(moved.shape[1]), np.array([query]), keys)
            moved[at] = dice.permuted(moved[at], axis=-1)
    return moved.reshape(heads.shape)


def _chance_pairs(matrices: list[Tensor], measure: str) -> ChancePairs | None:
    once = torch.ones_like(matrices[0], dtype=torch.bool).triu(1)
    values = _known([matrix[once] for matrix in matrices])
    if not len(values):
        return None
    apart = [as_distances(matrix, measure) for matrix in matrices]
    nearest = _known([torch.from_numpy(nearest_others(distance)[1]) for distance in apart])
    band = Band(*np.quantile(values, [(1 - HELD) / 2, (1 + HELD) / 2]).tolist())
    return ChancePairs(band, _known([distance[once] for distance in apart]), nearest)


def _known(parts: list[Tensor]) -> NDArray[np.floating]:
    """The numbers that are defined, ascending."""
    values = torch.cat(parts).cpu().numpy()
    return np.sort(values[np.isfinite(values)])


def _p_values(apart: NDArray[np.floating], by_chance: NDArray[np.floating]) -> NDArray[np.float64]:
    """The share of distances by chance that are no larger, one more counted on either side."""
    nearer = np.searchsorted(by_chance, apart + _ROUNDING, side="right")
    return np.where(np.isfinite(apart), (1 + nearer) / (1 + len(by_chance)), np.nan)
