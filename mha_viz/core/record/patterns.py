"""The attention weights of a record: stored, or computed from queries and keys when asked for."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.amounts import of_bytes
from mha_viz.core.attention.scoring import Found, Rows, Scoring, Tiles, over_blocks, row_blocks
from mha_viz.errors import NotKeptError, RecordError

HeadRows = Float[Tensor, "head row key"]  # some rows of some heads of one layer
STORED_BYTES = 256 * 2**20  # weights of a text that take no more are stored
MOST_BYTES = 2 * 2**30  # of weights that may be asked for in one tensor
_BROKEN = (
    "NaN or infinity here means that the model's weights or scores are broken; a sum above 1, "
    "often, that the model was in training mode, with dropout."
)


class Patterns(ABC):
    """The weights of every head of every layer, whatever they come from; immutable."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, queries and keys."""

    @property
    @abstractmethod
    def tensors(self) -> list[Tensor]:
        """The tensors that are held in memory."""

    @abstractmethod
    def rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows of some heads (None for all), the keys beyond the last seen left out."""

    def check(self) -> None:
        """Raise RecordError unless these are attention weights, as what follows from some is."""
        return

    def visible_keys(self, layer: int, rows: Rows = slice(None)) -> Bool[Tensor, "row key"] | None:
        """Return which keys some queries may see; None where nothing but the weights tells."""
        return None

    def seen_by_tokens(self, layer: int) -> Bool[Tensor, "query_token key_token"] | None:
        """Return likewise which of the tokens that words were merged from see which others."""
        return self.visible_keys(layer)

    @property
    def n_tokens(self) -> tuple[Int[Tensor, "query"], Int[Tensor, "key"]]:
        """The number of tokens that each place of either axis was, before words were merged."""
        counts = (torch.ones(n, dtype=torch.long) for n in self.shape[2:])
        return next(counts), next(counts)

    @property
    def n_bytes(self) -> int:
        """The memory that all weights would take."""
        layers, heads, queries, keys = self.shape
        return 4 * layers * heads * queries * keys

    def full_rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows over all keys."""
        weights = self.rows(layer, rows, heads)
        beyond = self.shape[3] - weights.shape[-1]
        return F.pad(weights, (0, beyond)) if beyond else weights

    def each_block(self, layer: int, work: Callable[[int, Tensor], Found]) -> Iterator[Found]:
        """Yield what `work`, called in threads, makes of each (first row, weights), in order."""
        blocks = row_blocks(self.shape[2], 4 * self.shape[1] * self.shape[3])

        def of_rows(rows: slice) -> Found:
            return work(rows.start, self.rows(layer, rows))

        yield from over_blocks(of_rows, blocks, torch.device("cpu"))

    def head(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        """Return the weights of one head."""
        weights = torch.zeros(self.shape[2:])

        def fill(rows: slice) -> None:
            part = self.rows(layer, rows, [head])[0]
            weights[rows, : part.shape[-1]] = part

        blocks = row_blocks(self.shape[2], 4 * self.shape[3])
        deque(over_blocks(fill, blocks, torch.device("cpu")), maxlen=0)
        return weights

    def layer(self, layer: int) -> Float[Tensor, "head query key"]:
        """Return the weights of one layer."""
        return self._fill(layer, torch.zeros(self.shape[1:]))

    def _fill(self, layer: int, pattern: Tensor) -> Tensor:
        """Put a layer's weights into zeros (head, query, key)."""

        def fill(first: int, rows: Tensor) -> None:
            pattern[:, first : first + rows.shape[1], : rows.shape[-1]] = rows

        deque(self.each_block(layer, fill), maxlen=0)
        return pattern

    def all(self) -> Float[Tensor, "layer head query key"]:
        """Return all weights as one tensor; NotKeptError if they take over `MOST_BYTES`."""
        layers, heads, queries, keys = self.shape
        if self.n_bytes > MOST_BYTES:
            raise NotKeptError(
                f"All attention weights of this text take {of_bytes(self.n_bytes)} ({layers} "
                f"layers x {heads} heads x {queries:,} x {keys:,}). Ask for the part that you "
                "need: record[layer, head], record.rows(layer, head, queries), "
                "record.from_token(query), record.to_token(key), record.region(layer, head, "
                "queries, keys) or, pooled, record.tiles()."
            )
        pattern = torch.zeros(self.shape)
        for layer, part in enumerate(pattern):
            self._fill(layer, part)
        return pattern

    def row_sums(self) -> Float[Tensor, "layer head query"]:
        """Return each row's sum."""

        def sums(first: int, rows: Tensor) -> Tensor:
            return rows.sum(-1)

        layers = range(self.shape[0])
        return torch.stack([torch.cat(list(self.each_block(i, sums)), 1) for i in layers])

    def from_token(self, query: int) -> Float[Tensor, "layer head key"]:
        """Return every head's weights from one token."""
        rows = slice(query, query + 1)
        return torch.stack([self.full_rows(i, rows)[:, 0] for i in range(self.shape[0])])

    def to_token(self, key: int) -> Float[Tensor, "layer head query"]:
        """Return every head's weights to one token."""

        def column(first: int, rows: Tensor) -> Tensor:
            return rows[..., key] if key < rows.shape[-1] else rows.new_zeros(rows.shape[:2])

        layers = range(self.shape[0])
        return torch.stack([torch.cat(list(self.each_block(i, column)), 1) for i in layers])

    def tiles(self, side: int, pool: str = "max") -> Float[Tensor, "layer head row column"]:
        """Pool all weights in cells of equal size, at most `side` of them on an axis."""
        pictures = []
        for layer in range(self.shape[0]):
            tiles = Tiles(self.shape[1:], side, pool)
            for pooled in self.each_block(layer, tiles.reduce):
                tiles.collect(pooled)
            pictures.append(tiles.pooled)
        return torch.stack(pictures)


def weight_bounds(weights: Float[Tensor, "*batch head query key"]) -> Float[Tensor, "3"]:
    """Return the least and the largest weight and row sum; NaN comes through in all of them."""
    return torch.stack([*torch.aminmax(weights), weights.sum(-1).max()]).float()


class StoredPatterns(Patterns):
    """Weights kept as a float32 tensor, and their `weight_bounds`, where these are known."""

    def __init__(
        self,
        weights: Float[Tensor, "layer head query key"],
        bounds: Float[Tensor, "3"] | None = None,
    ) -> None:
        self.weights, self._bounds = weights, bounds

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, queries and keys."""
        layers, heads, queries, keys = self.weights.shape
        return layers, heads, queries, keys

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors in memory."""
        return [self.weights]

    def check(self) -> None:
        """Raise RecordError unless these are attention weights."""
        weights = self.weights
        if not isinstance(weights, Tensor):
            raise RecordError(
                f"pattern must be a tensor, got {type(weights).__name__}: "
                "mha_viz.record(attentions, tokens) takes arrays and lists of layers."
            )
        if weights.ndim != 4 or weights.dtype != torch.float32:
            raise RecordError(
                "pattern must be float32 of shape (layer, head, query, key), got "
                f"{weights.dtype} of shape {tuple(weights.shape)}."
            )
        if 0 in weights.shape:
            raise RecordError(f"pattern must not be empty, got shape {tuple(weights.shape)}.")
        bounds = weight_bounds(weights) if self._bounds is None else self._bounds
        low, high, row_max = bounds.tolist()
        if not (low >= 0.0 and high <= 1.001 and row_max <= 1.01):  # bfloat16 rows miss 1 by 4e-3
            raise RecordError(
                "pattern must hold attention weights: numbers in [0, 1] whose rows sum to at most "
                f"1; got values from {low:.4g} to {high:.4g} and a row sum of {row_max:.4g}. "
                + _BROKEN
            )

    def rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows of some heads (None for all), up to the last key that is seen."""
        of_layer = self.weights[layer]
        return (of_layer if heads is None else of_layer[list(heads)])[:, rows]

    def head(self, layer: int, head: int) -> Tensor:
        """Return the weights of one head."""
        return self.weights[layer, head]

    def layer(self, layer: int) -> Tensor:
        """Return the weights of one layer."""
        return self.weights[layer]

    def all(self) -> Tensor:
        """Return all weights as one tensor."""
        return self.weights


@dataclass(frozen=True, eq=False)
class ComputedPatterns(Patterns):
    """Weights that are computed from a run's queries and keys, by `core.attention`."""

    # of each layer (head, query, d_head), in the model's precision, as the scores saw it
    query: tuple[Float[Tensor, "head query d_head"], ...]
    # of each layer (kv_head, key, d_head), likewise; key heads are not repeated
    key: tuple[Float[Tensor, "kv_head key d_head"], ...]
    scoring: tuple[Scoring, ...]  # what each layer does to them
    # tiles that the pass made, by side and kind of pooling
    pooled: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    # metrics of the weights by what is known of the tokens: (layer, head) by their key
    measured: dict[Hashable, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, queries and keys."""
        heads, queries = self.query[0].shape[:2]
        return len(self.query), heads, queries, self.key[0].shape[1]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors in memory."""
        rules = [(scoring.sinks, scoring.bias, scoring.sight.mask) for scoring in self.scoring]
        optional = [tensor for rule in rules for tensor in rule if tensor is not None]
        return [*self.query, *self.key, *self.pooled.values(), *optional]

    def check(self) -> None:
        """Raise RecordError unless these are attention weights."""
        expected = self.shape
        if not len(self.query) == len(self.key) == len(self.scoring):
            raise RecordError("query, key and scoring must be of as many layers.")
        for query, key, scoring in zip(self.query, self.key, self.scoring, strict=True):
            if (*query.shape[:2], key.shape[1]) != expected[1:] or len(query) % len(key):
                raise RecordError(
                    f"query {tuple(query.shape)} and key {tuple(key.shape)} of a layer do not fit "
                    f"a pattern of {expected[1:]}."
                )
            self._check_rules(scoring)
            ends = [end for tensor in (query, key) for end in torch.aminmax(tensor)]  # NaN, too
            if not all(bool(end.isfinite()) for end in ends):
                raise RecordError(f"query and key must be finite numbers. {_BROKEN}")

    def _check_rules(self, scoring: Scoring) -> None:
        _, heads, queries, keys = self.shape
        sinks, mask, bias = scoring.sinks, scoring.sight.mask, scoring.bias
        if (
            (sinks is not None and (sinks.shape != (heads,) or not sinks.is_floating_point()))
            or (mask is not None and (mask.shape != (queries, keys) or mask.dtype != torch.bool))
            or (bias is not None and not _fits(bias, heads, queries, keys))
        ):
            raise RecordError("sinks, mask or bias of a layer do not fit its queries and keys.")
        if sinks is not None and not bool(sinks.isfinite().all()):
            raise RecordError(f"sinks must be finite numbers. {_BROKEN}")

    def rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows of some heads (None for all), up to the last key that is seen."""
        head_indices = None if heads is None else list(heads)
        return (
            self.scoring[layer]
            .pattern(self.query[layer], self.key[layer], rows, head_indices)
            .float()
        )

    def visible_keys(self, layer: int, rows: Rows = slice(None)) -> Tensor:
        """Return which keys some queries may see."""
        return self.scoring[layer].sight.visible_keys(rows, *self.shape[2:])

    def row_sums(self) -> Tensor:
        """Return each row's sum; without a sink it needs no weights."""
        if any(scoring.sinks is not None for scoring in self.scoring):
            return super().row_sums()
        seeing = [scoring.sight.sees_any(*self.shape[2:]) for scoring in self.scoring]
        return torch.stack(seeing)[:, None].expand(self.shape[:3]).float()

    def to_token(self, key: int) -> Tensor:
        """Return every head's weights to one token; the first call visits all weights."""
        layers = zip(self.query, self.key, self.scoring, self._log_sums, strict=True)
        return torch.stack(
            [scoring.column(query, keys, key, sums) for query, keys, scoring, sums in layers]
        )

    @cached_property
    def _log_sums(self) -> list[Float[Tensor, "head query"]]:
        """Logarithms of the softmax's divisors: with them a column needs no other weights."""
        _, heads, n_queries, n_keys = self.shape
        blocks = row_blocks(n_queries, 4 * heads * n_keys)
        log_sums = []
        for query, key, scoring in zip(self.query, self.key, self.scoring, strict=True):
            of_rows = partial(scoring.log_sums, query, key)
            log_sums.append(torch.cat(list(over_blocks(of_rows, blocks, query.device)), 1))
        return log_sums

    def tiles(self, side: int, pool: str = "max") -> Tensor:
        """Pool all weights in cells, and remember them."""
        if (side, pool) not in self.pooled:
            self.pooled[side, pool] = super().tiles(side, pool)
        return self.pooled[side, pool]


def _fits(bias: Tensor, heads: int, queries: int, keys: int) -> bool:
    shapes = (1, queries, keys), (heads, queries, keys)
    return (
        tuple(bias.shape) in shapes and bias.is_floating_point() and bool((bias < torch.inf).all())
    )
