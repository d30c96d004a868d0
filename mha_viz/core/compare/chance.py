"""The likeness of heads by chance: what a likeness, or a lack of diversity, has to exceed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.compare.twins import nearest_others
from mha_viz.core.measure import all_rows, as_distances, head_similarity
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.parameters import diversity
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.patterns import STORED_BYTES
from mha_viz.core.record.visible import distinct_masks

HELD = 0.95  # share of the chance pairs that a band holds
LEAST = 5  # rows to permute: of fewer, more than one order in forty is the one that they have
ROUNDS, _FEWEST = 20, 5  # in 20 rounds even a lone pair can have a p-value that is small enough
_MOST_WORK = 3e10  # products of numbers: two seconds at 144 heads and 256 tokens
_ROUNDING = 1e-6  # of a distance in float32


class Band(NamedTuple):
    """The range of 95 % of the pairs that are alike by chance only, in the measure's units."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ChancePairs:
    """A comparison of a record's pairs of heads with heads that share nothing."""

    band: Band  # where 95 % of the pairs of heads that share nothing lie
    pairs: Float[np.ndarray, "chance"]  # distances of these (see `as_distances`), ascending
    # how often a pair of the record would be as near by chance, in the order of `np.triu_indices`,
    # and how often a head's nearest other one would; NaN where there is no distance
    p_pairs: Float[np.ndarray, "pair"]
    p_nearest: Float[np.ndarray, "head2"]

    @property
    def edge(self) -> float:
        """The distance below which 2.5 % of the chance pairs lie."""
        return float(np.quantile(self.pairs, (1 - HELD) / 2))


def permuted_pairs(record: AttentionRecord, measure: str, seed: int = 0) -> ChancePairs | None:
    """Compare a record's pairs of heads with the same heads whose tokens are permuted.

    Such heads are as sharp and as large, but pick their tokens at random. Each row of a pattern
    gets its weights in random order among the keys that it sees; z gets its rows in random order,
    each head in an order of its own. Redundancy does not depend on the order of tokens: for it the
    coordinates change places. All heads are permuted 20 times, or fewer times where that is much
    work, but at least five.

    A pair's p-value is the share of chance pairs that are as near. Broad heads are near by chance,
    sharp ones far apart, so a pair must also be nearer than its own mean: the larger p-value counts
    of that and of the share of chance pairs that are nearer than their own means by as much. A
    nearest other head is the smallest of many distances; it is compared with such minima, and by
    how much nearer it is than that head's own mean alone. Returns None where there are fewer than
    five things to permute, or no pair has a number. Distances are those of `as_distances`, p-values
    in (0, 1]. Source: the p-value of Phipson and Smyth 2010, of chance pairs of all heads together.
    """
    made_of = PAIR_MEASURES[measure]
    queries = _some_queries(record) if made_of == "pattern" else slice(None)
    if made_of == "pattern":
        heads = all_rows(record.patterns).rows(queries, None).numpy()
    else:
        heads = record.require(made_of).flatten(0, 1).float().cpu().numpy()
    coordinates = measure.startswith("redundancy")
    if heads.shape[2 if coordinates else 1] < LEAST:
        return None
    masks = distinct_masks(record) if made_of == "pattern" else []
    dice = np.random.default_rng(seed)

    def permuted() -> NDArray[np.float32]:
        if made_of == "pattern":
            return among_seen(heads, masks, queries, record.n_heads, dice)
        if coordinates:
            return in_new_order(heads.swapaxes(1, 2), dice).swapaxes(1, 2)
        return in_new_order(heads, dice)

    def compared(heads: NDArray[np.float32]) -> Tensor:
        head_values = torch.from_numpy(np.ascontiguousarray(heads))
        return METRICS[measure].function(head_values[None]).cpu()

    matrices = [compared(heads)]
    # CKA compares (query, query) kernels, all other measures what is held of each head
    numbers = len(heads) * heads.shape[1] ** 2 if measure.startswith("cka") else heads.size
    for _ in range(int(np.clip(_MOST_WORK // (len(heads) * numbers), _FEWEST, ROUNDS))):
        check_cancelled()
        matrices.append(compared(permuted()))  # one is in memory at a time
    band = _band(matrices[1:])
    if band is None:
        return None
    apart = [as_distances(matrix, measure).double().numpy() for matrix in matrices]
    pairs = np.stack([distance[np.triu_indices(len(heads), 1)] for distance in apart])
    nearest = np.stack([nearest_others(distance)[1] for distance in apart])
    by_chance = np.sort(pairs[1:][np.isfinite(pairs[1:])])
    p_pairs = np.maximum(p_values(pairs), p_values(pairs - pairs.mean(0)))
    return ChancePairs(band, by_chance, p_pairs, p_values(nearest - nearest.mean(0)))


def untrained_band(record: AttentionRecord, measure: str) -> Band | None:
    """Return the band of the pairs of an untrained copy's heads.

    It is a baseline of outputs, not of patterns: before training all rows are nearly uniform, so
    all patterns are nearly the same. Returns None where no pair has a number.
    """
    return _band([head_similarity(record, measure)])


def diversity_band(n_heads: int, d_model: int, d_head: int, seeds: int = 20) -> tuple[float, Band]:
    """Estimate D (see `diversity`) of independent Gaussian matrices: its mean and its band.

    The matrices are drawn `seeds` times; the band is 1.96 standard deviations wide on either side.

    >>> mean, band = diversity_band(8, 64, 8)
    >>> round(mean, 2), band.low < mean < band.high
    (0.96, True)
    """
    values = torch.empty(seeds, dtype=torch.float64)
    for seed in range(seeds):
        dice = torch.Generator().manual_seed(seed)
        values[seed] = diversity(torch.randn(n_heads, d_model, d_head, generator=dice))
    mean, half = float(values.mean()), 1.96 * float(values.std())
    return mean, Band(mean - half, mean + half)


def in_new_order(heads: NDArray[np.float32], dice: np.random.Generator) -> NDArray[np.float32]:
    """Return each head's rows in an order of its own."""
    every = np.arange(len(heads))[:, None]
    orders = dice.permuted(np.tile(np.arange(heads.shape[1]), (len(heads), 1)), axis=1)
    return heads[every, orders]


def _some_queries(record: AttentionRecord) -> slice:
    """Return the queries whose rows are compared: all, or as many as half of those stored."""
    n_bytes = record.patterns.n_bytes
    few = n_bytes > STORED_BYTES  # of long texts, so that they and their copy take no more
    return slice(0, None, -(-n_bytes // (STORED_BYTES // 2)) if few else None)


def among_seen(
    heads: NDArray[np.float32],
    masks: Sequence[tuple[list[int], Tensor]],
    queries: slice,
    n_heads: int,
    dice: np.random.Generator,
) -> NDArray[np.float32]:
    """Return each row's weights in an order of its own among the keys that it sees."""
    moved = heads.reshape(-1, n_heads, *heads.shape[1:]).copy()
    for layers, mask in masks:
        for layer in map(moved.__getitem__, layers):
            check_cancelled()
            for query, keys in enumerate(mask[queries].cpu().numpy()):
                layer[:, query, keys] = dice.permuted(layer[:, query, keys], axis=-1)
    return moved.reshape(heads.shape)


def _band(matrices: list[Tensor]) -> Band | None:
    values = torch.stack(matrices)[:, *np.triu_indices(len(matrices[0]), 1)].cpu().numpy()
    finite_values = values[np.isfinite(values)]
    return band_of(finite_values) if len(finite_values) else None


def band_of(values: NDArray[np.floating]) -> Band:
    """Return the range that holds 95 % of some numbers."""
    return Band(*np.quantile(values, [(1 - HELD) / 2, (1 + HELD) / 2]).tolist())


def p_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute p-values of the first row, small values against those of chance in all other rows."""
    is_finite = np.isfinite(values).all(0)
    by_chance = np.sort(values[1:, is_finite], axis=None)
    count = np.searchsorted(by_chance, values[0] + _ROUNDING, side="right")
    return np.where(is_finite, (1 + count) / (1 + len(by_chance)), np.nan)
