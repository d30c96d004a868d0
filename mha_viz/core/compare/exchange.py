"""Differences of two heads' metrics beyond what an exchange of their rows gives."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.measure import record_sums
from mha_viz.core.metrics.chance import RATE
from mha_viz.core.metrics.head_sums import HeadSums, Sums
from mha_viz.core.record.attention_record import AttentionRecord

MOST_BLOCKS = 64  # of a longer text, so many blocks of consecutive rows are exchanged
HELD = 0.95  # share of the exchanges that differ by no more than the noise
_DRAWS = 1_999
_ROUNDING = 1e-6  # of a metric in float32, as a share of its size
_NOTHING = 1e-12  # a sum below this is what rounding leaves of 0
_Finish = Callable[[Sums], Tensor]
Dealt = NDArray[np.bool_]  # (draw, block): which blocks change places, or go to the first head


@dataclass(frozen=True)
class Exchange:
    """The differences of two heads that an exchange of their rows gives, by metric."""

    p: Mapping[str, float]  # how often an exchange differs as much, in (0, 1]
    noise: Mapping[str, float]  # the difference that 95 % of exchanges do not exceed, unsigned
    rows: tuple[int, int]  # how many rows, or blocks of them, of either head have a choice of keys
    paired: bool  # rows of the same query change places; else any rows of two texts

    def rows_needed(self, n_metrics: int) -> int:
        """Return how many rows each head needs for one of so many metrics to be found."""
        n = 1
        while self._least_p(n, n) > RATE / max(n_metrics, 1):
            n += 1
        return n

    def conclusive(self, n_metrics: int) -> bool:
        """Return whether there are rows enough for one of so many metrics to be found."""
        return self._least_p(*self.rows) <= RATE / max(n_metrics, 1)

    def _least_p(self, rows_a: int, rows_b: int) -> float:
        """Return how often the most unlikely exchange and its mirror image come up."""
        orders = 2 ** min(rows_a, rows_b) if self.paired else math.comb(rows_a + rows_b, rows_a)
        return min(1.0, 2 / orders)


def exchange_test(
    a: AttentionRecord, b: AttentionRecord, *, paired: bool = True, seed: int = 0
) -> Exchange:
    """Compare the metrics of two heads with those of heads whose rows were exchanged at random.

    If both heads draw their rows alike, any exchange of rows gives a difference as probable as the
    one at hand. Rows of one query change places; of two texts, where rows have no partner, they are
    dealt out anew, and only metrics that are means over rows are tested. Beyond 64 rows, blocks of
    consecutive rows are exchanged as a whole. It takes neighbouring rows to be draws of their own,
    and knows one text.

    `a` and `b` are records of one head each (see `chosen_heads`), on the same tokens if `paired`,
    that is if rows have a partner. Metrics of what heads write are not tested. There are 1,999
    exchanges.

    Source: the permutation test of Fisher 1935, with the p-value of Phipson and Smyth 2010.
    """
    dice = np.random.default_rng(seed)
    (blocks_a, choices_a), (blocks_b, choices_b) = _blocks(a), _blocks(b)
    n_a, n_b = len(blocks_a), len(blocks_b)
    if paired:
        swaps = dice.random((_DRAWS, n_a)) < 0.5
        dealt = np.vstack([np.zeros(n_a, bool), swaps])  # the first is the one at hand
    else:
        is_a = np.arange(n_a + n_b) < n_a
        dealt = np.vstack([is_a, dice.permuted(np.tile(is_a, (_DRAWS, 1)), axis=1)])
    p: dict[str, float] = {}
    noise: dict[str, float] = {}
    for key in blocks_a[0].sums:
        check_cancelled()
        of_a, of_b = _stacked(blocks_a, key), _stacked(blocks_b, key)
        if of_a is None or of_b is None:
            continue
        finish_a, finish_b = (partial(blocks[0].finished, key) for blocks in (blocks_a, blocks_b))
        compare = _swapped if paired else _mixed
        differences = compare(finish_a, finish_b, of_a, of_b, dealt)
        if differences is not None and bool(differences.isfinite().all()):
            at_hand, drawn = float(differences[0]), differences[1:]
            count = int((drawn >= at_hand - _ROUNDING * max(1.0, at_hand)).sum())
            p[key] = (1 + count) / (1 + _DRAWS)
            noise[key] = float(drawn.quantile(HELD))
    return Exchange(p, noise, (choices_a, choices_b), paired)


def _blocks(record: AttentionRecord) -> tuple[list[HeadSums], int]:
    """Return the sums of each block of rows, and how many blocks have a choice of keys."""
    n, patterns = record.shape[2], record.patterns
    visible_keys = partial(patterns.visible_keys, 0)
    sinks = None if record.sink is None else record.sink[0]
    of_head = record_sums(record).layer(visible_keys, sinks)
    ends = np.linspace(0, n, min(n, MOST_BLOCKS) + 1).astype(int).tolist()
    sums, choices = [], 0
    for rows in map(slice, ends[:-1], ends[1:]):
        check_cancelled()
        sums.append(of_head.reduce(rows.start, patterns.full_rows(0, rows))[0])
        visible = visible_keys(rows)
        assert visible is not None  # of chosen heads
        choices += bool((visible.sum(-1) > 1).any())
    return sums, choices


def _stacked(blocks: list[HeadSums], key: str) -> list[Float[Tensor, "block ..."]] | None:
    """Return each sum of a metric by block; None where it has none."""
    if key not in blocks[0].sums:  # of the other text alone
        return None
    parts = list(zip(*(block.sums[key] for block in blocks), strict=True))
    if any(isinstance(part[0], list) for part in parts):
        return None
    return [torch.stack(part).double()[:, 0, 0] for part in parts]  # of one text, one head


def _swapped(
    finish: _Finish, _: _Finish, of_a: list[Tensor], of_b: list[Tensor], dealt: Dealt
) -> Float[Tensor, "draw"]:
    """Return how far two heads differ after each exchange of some blocks with their partners."""
    swap, sums = torch.from_numpy(dealt).double(), []
    for sums_a, sums_b in zip(of_a, of_b, strict=True):
        moved = torch.tensordot(swap, sums_b - sums_a, 1)
        both = torch.stack([sums_a.sum(0) + moved, sums_b.sum(0) - moved], 1)
        sums.append(torch.where(both.abs() < _NOTHING, 0.0, both))
    first, second = finish(tuple(sums)).unbind(-1)
    return (second - first).abs()


def _mixed(
    finish_a: _Finish, finish_b: _Finish, of_a: list[Tensor], of_b: list[Tensor], dealt: Dealt
) -> Float[Tensor, "draw"] | None:
    """Return how far means differ after blocks of two texts are dealt anew; None for no mean."""
    pooled = []
    for finish, sums in ((finish_a, of_a), (finish_b, of_b)):
        of_blocks = finish(tuple(part[:, None] for part in sums))[:, 0]
        total = finish(tuple(part.sum(0)[None, None] for part in sums))[0, 0]
        if not torch.isclose(of_blocks.sum(), total):
            return None
        pooled.append(len(of_blocks) * of_blocks)
    values, first = torch.cat(pooled), torch.from_numpy(dealt).double()
    n = len(of_a[0])
    mean_a, mean_b = first @ values / n, (1 - first) @ values / (len(values) - n)
    return (mean_b - mean_a).abs()
