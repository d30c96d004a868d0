"""Attention of one text by blocks of rows: no layer's query x key numbers are held at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.attention.dot_product import scores, weights, z
from mha_viz.core.attention.masks import visible
from mha_viz.core.threads import in_threads

BLOCK_BYTES = 4 * 2**20  # of the weights that a thread computes at once: about what a cache holds
DEVICE_BLOCK_BYTES = 256 * 2**20  # elsewhere, where to start a step takes longer than a small block
Place = torch.device | str
_CPU, _ALL = torch.device("cpu"), slice(None)
Found = TypeVar("Found")
Rows = slice | Tensor  # consecutive queries, or any


@dataclass(frozen=True, eq=False)
class Sight:
    """The keys that the queries of a layer may see: a band around their own place, or a mask."""

    before: int | None = None  # how many places before its own a query sees; None for all
    after: int | None = None  # how many after its own, 0 in a causal layer; None for all
    # bool (query, key), True = may see, of what is no such band
    mask: Bool[Tensor, "query key"] | None = None

    @classmethod
    def of(cls, mask: Bool[Tensor, "query key"] | None) -> "Sight":
        """Return the band that a mask is, or the mask.

        >>> Sight.of(torch.ones(5, 5, dtype=torch.bool).tril())
        Sight(before=None, after=0, mask=None)
        >>> Sight.of(torch.ones(5, 5, dtype=torch.bool).tril().triu(-1))
        Sight(before=1, after=0, mask=None)
        """
        if mask is None or bool(mask.all()):
            return cls()
        mask = mask.cpu()
        queries, keys = mask.shape
        blocks = [slice(start, start + 512) for start in range(0, queries, 512)]
        before = after = -keys
        for rows in blocks:  # as numbers, truth values take four times the memory
            positions, visible_rows = torch.arange(queries)[rows], mask[rows].int()
            last = keys - 1 - visible_rows.flip(1).argmax(1)
            before = max(before, int((positions - visible_rows.argmax(1)).max()))
            after = max(after, int((last - positions).max()))
        band = cls(None if before >= queries - 1 else before, None if after >= keys - 1 else after)
        if all(torch.equal(band.visible_keys(rows, *mask.shape), mask[rows]) for rows in blocks):
            return band
        return cls(mask=mask)

    def width(self, rows: Rows, n_queries: int, n_keys: int) -> int:
        """Return how many keys there are up to the last one that any of these rows sees."""
        if self.after is None:
            return n_keys
        last = range(n_queries)[rows][-1] if isinstance(rows, slice) else int(rows.max())
        return min(n_keys, last + self.after + 1)

    def visible_keys(
        self, rows: Rows, n_queries: int, n_keys: int, keys: slice = _ALL, device: Place = _CPU
    ) -> Bool[Tensor, "row key"]:
        """Return which of these keys each of these rows sees; no device is waited for."""
        if self.mask is not None:
            return self.mask[rows, keys].to(device, non_blocking=True)
        queries, key_positions = (torch.arange(n, device=device) for n in (n_queries, n_keys))
        offsets = queries[rows][:, None] - key_positions[keys]
        is_visible = torch.ones_like(offsets, dtype=torch.bool)
        if self.before is not None:
            is_visible &= offsets <= self.before
        return is_visible if self.after is None else is_visible & (offsets >= -self.after)

    def sees_any(self, n_queries: int, n_keys: int) -> Bool[Tensor, "query"]:
        """Return which queries see any key."""
        if self.mask is not None:
            return self.mask.any(-1)
        positions = torch.arange(n_queries)
        first = torch.zeros_like(positions) if self.before is None else positions - self.before
        last = torch.full_like(positions, n_keys) if self.after is None else positions + self.after
        return first.clamp_min(0) <= last.clamp_max(n_keys - 1)

    @property
    def is_everything(self) -> bool:
        """True where every query sees every key."""
        return self.before is None and self.after is None and self.mask is None

    @property
    def is_causal(self) -> bool:
        """True where every query sees all keys up to its own place."""
        return self.before is None and self.after == 0


def sight_and_bias(
    added: Bool[Tensor, "#head query key"] | Float[Tensor, "#head query key"] | None,
) -> tuple[Sight, Float[Tensor, "#head query key"] | None]:
    """Divide what is added to a layer's scores into what it lets a query see, and a bias.

    >>> sight_and_bias(torch.full((1, 3, 3), -torch.inf).triu(1))
    (Sight(before=None, after=0, mask=None), None)
    """
    if added is None:
        return Sight(), None
    is_visible = visible(added)
    sight = Sight.of(is_visible.any(0))
    alike = len(added) == 1 or bool((is_visible == is_visible[:1]).all())
    nothing = added.dtype == torch.bool or not bool(((added != 0) & is_visible).any())
    if alike and nothing:
        return sight, None
    if added.dtype == torch.bool:
        added = torch.zeros(added.shape).masked_fill_(~added, -torch.inf)
    return sight, added


@dataclass(frozen=True, eq=False)
class Scoring:
    """All that one layer does to queries and keys on the way to its pattern; see `attention`.

    Its methods take the queries (head, query, d_head) and the keys (kv_head, key, d_head) of all
    positions of one text; key heads are not repeated.
    """

    # `scale`, `softcap`: as in `attention`
    scale: float
    softcap: float | None = None
    sinks: Float[Tensor, " head"] | None = None  # one more score for each head, (head,)
    sight: Sight = Sight()  # what its queries may see
    # floats (head or 1, query, key) that are added to the scores, and that forbid what is not in
    # sight.
    bias: Float[Tensor, "#head query key"] | None = None

    def pattern(
        self, query: Tensor, key: Tensor, rows: Rows, heads: Sequence[int] | None = None
    ) -> Float[Tensor, "head row column"]:
        """Compute some rows of some heads' pattern (None for all heads).

        Returns weights over the keys up to the last one that is seen; those of keys beyond are 0.
        """
        width = self.sight.width(rows, query.shape[1], key.shape[1])
        query, key, mask, sinks = self._at(query, key, rows, slice(width), heads)
        return weights(query, key, mask, False, self.scale, self.softcap, sinks)

    def log_sums(self, query: Tensor, key: Tensor, rows: Rows) -> Float[Tensor, "head row"]:
        """Compute the logarithm of what the softmax divides each row by."""
        query, key, mask, sinks = self._at(query, key, rows, slice(None))
        raw = scores(query, key, mask=mask, scale=self.scale, softcap=self.softcap)
        total = raw.logsumexp(-1)
        return total if sinks is None else torch.logaddexp(total, sinks.to(total)[:, None])

    def column(
        self, query: Tensor, key: Tensor, position: int, log_sums: Float[Tensor, "head query"]
    ) -> Float[Tensor, "head query"]:
        """Compute the weights of one key in all rows, whose `log_sums` are known."""
        query, key, mask, _ = self._at(query, key, slice(None), slice(position, position + 1))
        raw = scores(query, key, mask=mask, scale=self.scale, softcap=self.softcap)
        return (raw[..., 0] - log_sums).exp().nan_to_num(0.0)  # of rows that see nothing

    def _at(
        self,
        query: Tensor,
        key: Tensor,
        rows: Rows,
        keys: slice,
        heads: Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return queries, keys, mask and sinks of some rows, keys and heads."""
        n_queries, n_keys = query.shape[1], key.shape[1]
        bias, sinks = self.bias, self.sinks
        if heads is not None:
            group, heads = len(query) // len(key), list(heads)
            query, key = query[heads], key[[head // group for head in heads]]
            bias = bias if bias is None or len(bias) == 1 else bias[heads]
            sinks = None if sinks is None else sinks[heads]
        query, key = query[:, rows], key[:, keys]
        mask = None if bias is None else bias[:, rows, keys]
        if bias is None and not self.sight.is_everything:
            mask = self.sight.visible_keys(rows, n_queries, n_keys, keys, query.device)
        if query.device.type == "cpu":  # which multiplies numbers of half precision slowly
            wide = torch.promote_types(query.dtype, torch.float32)
            query, key = query.to(wide), key.to(wide)
        return query, key, mask, sinks


class RowReduction(ABC):
    """A reduction of all rows of a layer's pattern, block by block."""

    @abstractmethod
    def reduce(self, first: int, pattern: Float[Tensor, "head row column"]) -> Any:
        """Reduce the rows from number `first` on, in a thread among others."""

    @abstractmethod
    def collect(self, part: Any) -> None:
        """Take what `reduce` made of the next block, in the order of rows."""


def row_blocks(n_queries: int, bytes_of_row: int, device: torch.device = _CPU) -> list[slice]:
    """Divide the queries into blocks of rows that take about `BLOCK_BYTES`.

    `bytes_of_row` is what a row of all heads takes. On another device than the processor a block
    takes `DEVICE_BLOCK_BYTES`.

    >>> row_blocks(7, BLOCK_BYTES // 4)
    [slice(0, 4, None), slice(4, 7, None)]
    """
    size = max(1, (BLOCK_BYTES if device.type == "cpu" else DEVICE_BLOCK_BYTES) // bytes_of_row)
    return [slice(start, min(start + size, n_queries)) for start in range(0, n_queries, size)]


def over_blocks(
    work: Callable[[slice], Found], blocks: Sequence[slice], device: torch.device
) -> Iterator[Found]:
    """Yield what `work` makes of each block, in order; on a processor in threads."""
    inference = torch.is_inference_mode_enabled()  # a thread begins without it

    def inside(rows: slice) -> Found:
        with torch.inference_mode(inference):
            return work(rows)

    if device.type == "cpu" and len(blocks) > 1:
        yield from in_threads(inside, blocks)
    else:
        yield from map(work, blocks)


def attention_by_rows(
    query: Float[Tensor, "head query d_head"],
    key: Float[Tensor, "kv_head key d_head"],
    value: Float[Tensor, "kv_head key d_value"],
    scoring: Scoring,
    reductions: Sequence[RowReduction] = (),
) -> Float[Tensor, "head query d_value"]:
    """Compute the z of one text, while reductions read its pattern block by block.

    Query, key and value are of all positions; key heads are not repeated.
    """
    mixed = query.new_empty(*query.shape[:2], value.shape[-1])

    def work(rows: slice) -> list[Any]:
        pattern = scoring.pattern(query, key, rows)
        mixed[:, rows] = z(pattern.to(value.dtype), value[:, : pattern.shape[-1]])
        return [reduction.reduce(rows.start, pattern) for reduction in reductions]

    blocks = row_blocks(query.shape[1], 4 * len(query) * key.shape[1], query.device)
    for reduced in over_blocks(work, blocks, query.device):
        for reduction, part in zip(reductions, reduced, strict=True):
            reduction.collect(part)
    return mixed


class SinkShares(RowReduction):
    """The share of each row that a learned sink took: what the row lacks, (head, query)."""

    def __init__(self) -> None:
        self._shares: list[Tensor] = []

    @property
    def shares(self) -> Float[Tensor, "head query"]:
        """The shares of all rows."""
        return torch.cat(self._shares, 1)

    def reduce(self, first: int, pattern: Float[Tensor, "head row column"]) -> Tensor:
        """Return the shares of some rows."""
        return (1 - pattern.sum(-1)).clamp(0.0, 1.0)

    def collect(self, part: Tensor) -> None:
        """Put the shares of the next rows behind those before."""
        self._shares.append(part)


class Tiles(RowReduction):
    """Cells of equal size of one layer's pattern, pooled block by block.

    `shape` is head, query and key, `side` how many cells a side may have, `pool` "max" or "sum" of
    the weights in a cell.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        side: int,
        pool: str = "max",
        device: torch.device | str = "cpu",
    ) -> None:
        heads, queries, keys = shape
        self.cell = cell_size(queries, keys, side)
        self.pool = pool
        cells = (-(-n // self.cell) for n in (queries, keys))
        self.pooled = torch.zeros(heads, *cells, device=device)

    def reduce(self, first: int, pattern: Float[Tensor, "head row column"]) -> tuple[int, Tensor]:
        """Pool the rows from number `first` on: the first row of cells, and these cells.

        Keys beyond the pattern's have no weight.
        """
        n_rows = pattern.shape[1]
        begin = min(-first % self.cell, n_rows)  # up to here the cells of the rows before go on
        end = n_rows - (n_rows - begin) % self.cell
        pieces = [pattern[:, None, :begin], pattern[:, None, end:]]
        pieces.insert(1, pattern[:, begin:end].unflatten(1, (-1, self.cell)))
        pooled = torch.cat([self._pooled(piece, 2) for piece in pieces if piece.numel()], 1)
        pooled = F.pad(pooled, (0, -pooled.shape[-1] % self.cell))
        return first // self.cell, self._pooled(pooled.unflatten(2, (-1, self.cell)), 3)

    def collect(self, cells: tuple[int, Tensor]) -> None:
        """Put cells to those that were made of other rows."""
        row, pooled = cells
        part = self.pooled[:, row : row + pooled.shape[1], : pooled.shape[2]]
        part.copy_(torch.maximum(part, pooled) if self.pool == "max" else part + pooled)

    def _pooled(self, weights: Tensor, axis: int) -> Tensor:
        return weights.amax(axis) if self.pool == "max" else weights.sum(axis)


def cell_size(n_queries: int, n_keys: int, side: int) -> int:
    """Return how many tokens a cell has on either axis, so that at most `side` cells are needed.

    >>> cell_size(2039, 2039, 128), cell_size(40, 40, 128)
    (16, 1)
    """
    return -(-max(n_queries, n_keys) // side)
