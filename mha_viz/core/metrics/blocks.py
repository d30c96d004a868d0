"""Blocks of rows: the pieces of attention weights that the metrics of heads are summed over."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LEAST = 1e-30  # added to a weight so that 0 ln 0 comes out as 0; too small to change a sum

_Made = TypeVar("_Made")


class Shared:
    """An object that keeps what several layers need of it: a graphics card makes it once."""

    def once(self, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """Return what is known by this key, made where it is not there yet."""
        cache: dict[Hashable, _Made] = self.__dict__.setdefault("_made", {})
        if key not in cache:
            cache[key] = make()
        return cache[key]


@dataclass(frozen=True, eq=False)
class Texts(Shared):
    """The texts of a batch. The layers of a record are a batch as well, all of one text.

    A first axis of 1 stands for a batch whose texts are alike.
    """

    lengths: Int[Tensor, "#batch"]  # the number of queries of each text
    ids: Int[Tensor, "#batch key"] | None = None  # of the keys, -1 in padding; None: unknown
    is_special: Bool[Tensor, "#batch key"] | None = None  # False in padding; None: none is known
    causal: bool = False  # the future was hidden
    cross: bool = False  # queries and keys are different tokens
    period: int | None = None  # tokens in one copy, where each text is a sequence repeated once
    start: int = 0  # tokens before the first copy

    def part(self, batch: slice) -> Texts:
        """Return some of the texts."""
        return self._with(lambda tensor: part_of(tensor, batch))

    def to(self, device: torch.device | str) -> Texts:
        """Return the texts on a device, which is not waited for."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=True))

    def repeat(self, n: int) -> Texts:
        """Return the texts of a batch n times, one batch after another."""
        return self._with(lambda tensor: torch.cat([tensor] * n))

    def _with(self, change: Callable[[Tensor], Tensor]) -> Texts:
        """Return the texts with other tensors."""
        ids = None if self.ids is None else change(self.ids)
        special = None if self.is_special is None else change(self.is_special)
        about = (self.causal, self.cross, self.period, self.start)
        return Texts(change(self.lengths), ids, special, *about)

    def is_real(self, n: int, first: int = 0) -> Bool[Tensor, "#batch query"]:
        """Return which of n queries from number `first` on are no padding."""

        def make() -> Tensor:
            return (
                torch.arange(first, first + n, device=self.lengths.device) < self.lengths[:, None]
            )

        return self.once(("real", n, first), make)

    def distances(
        self, rows: slice, n_keys: int, dtype: torch.dtype
    ) -> Float[Tensor, "1 query key"]:
        """Return how far each key is from each of these queries, in tokens."""

        def make() -> Tensor:
            at = torch.arange(n_keys, device=self.lengths.device)
            return (at[rows, None] - at).abs()[None].to(dtype)

        return self.once(("distances", rows.start, rows.stop, n_keys, dtype), make)


@dataclass(frozen=True, eq=False)
class Visible(Shared):
    """The keys that some consecutive queries see, and what follows from that."""

    keys: Bool[Tensor, "#batch query key"]  # no padding on either side
    n_keys: Int[Tensor, "#batch query"]  # the number of keys that a query sees
    # keys that hold the query's own token elsewhere, no special ones; None without token ids
    repeats: Bool[Tensor, "#batch query key"] | None

    @classmethod
    def of(cls, texts: Texts, keys: Bool[Tensor, "#batch query key"], first: int = 0) -> Visible:
        """Count and compare the keys that queries from number `first` on see."""
        repeats = None
        if texts.ids is not None and not texts.cross:
            rows = slice(first, first + keys.shape[1])
            repeats = keys & (texts.ids[:, rows, None] == texts.ids[:, None])
            repeats.diagonal(first, -2, -1).fill_(False)
            if texts.is_special is not None:
                repeats &= ~texts.is_special[:, rows, None]
        return cls(keys, keys.sum(-1), repeats)

    @cached_property
    def n_repeating(self) -> Int[Tensor, "#batch 1"]:
        """The number of queries that see their own token elsewhere."""
        assert self.repeats is not None
        return self.repeats.any(-1).sum(-1, keepdim=True)

    def most_entropy(self, dtype: torch.dtype) -> Float[Tensor, "#batch 1 query"]:
        """Return the entropy of each query's row when all keys that it sees weigh alike."""
        return self.once(("entropy", dtype), lambda: self.n_keys[:, None].to(dtype).log())

    def repeats_as(self, dtype: torch.dtype) -> Float[Tensor, "#batch query key"]:
        """Return `repeats` as factors of weights: 1 or 0."""
        repeats = self.repeats
        assert repeats is not None
        return self.once(("repeats", dtype), lambda: repeats.to(dtype))

    def part(self, batch: slice, queries: slice) -> Visible:
        """Return what some queries of some texts see."""
        repeats = None if self.repeats is None else part_of(self.repeats, batch, queries)
        return Visible(
            part_of(self.keys, batch, queries), part_of(self.n_keys, batch, queries), repeats
        )


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Consecutive rows of one layer's pattern, and numbers that several metrics are made of."""

    # float32 or float64; zeros in the rows of padding
    pattern: Float[Tensor, "batch head query key"]
    first: int  # the number of the first row
    texts: Texts  # of the batch
    visible: Visible  # what these rows see
    # the share of each row that a learned sink took; None: what the row lacks
    sinks: Float[Tensor, "batch head query"] | None = None

    @cached_property
    def strongest(self) -> Float[Tensor, "batch head query"]:
        """The largest weight of each row."""
        return self.pattern.amax(-1)

    @cached_property
    def mass(self) -> Float[Tensor, "batch head query"]:
        """The sum of each row."""
        return self.pattern.sum(-1)

    @cached_property
    def by_key(self) -> Float[Tensor, "batch head key"]:
        """The sum of each column."""
        return self.pattern.sum(-2)

    @cached_property
    def on_special(self) -> Float[Tensor, "batch head key"]:
        """The sum of each special token's column; 0 for others."""
        assert self.texts.is_special is not None
        return self.by_key * self.texts.is_special[:, None]

    @cached_property
    def sink_mass(self) -> Float[Tensor, "batch head query"]:
        """The share of each row that a learned sink took; 0 in padding."""
        if self.sinks is not None:
            return self.sinks
        real = self.texts.is_real(self.pattern.shape[-2], self.first)
        return (1 - self.mass).clamp(0.0, 1.0) * real[:, None]

    @cached_property
    def entropies(self) -> Float[Tensor, "batch head query"]:
        """The entropy of each row in nats, after it is scaled to sum to 1; 0 without weight."""
        if self._on_cpu:
            # numpy's logarithm works on many numbers at once, torch's entr on one
            weights = self.pattern.numpy()
            logarithms = weights + LEAST
            np.log(logarithms, out=logarithms)
            rows = torch.from_numpy(-np.vecdot(weights, logarithms))
        else:
            rows = torch.special.entr(self.pattern).sum(-1)
        return scaled_entropy(rows, self.mass, most=1.0)

    def dot(self, counts: Tensor) -> Float[Tensor, "batch head query"]:
        """Sum each row's weights by what each key counts, (batch or 1, query, key)."""
        counts = counts[:, None]
        if self._on_cpu:
            return torch.from_numpy(np.vecdot(self.pattern.numpy(), counts.numpy()))
        return (self.pattern * counts).sum(-1)

    def diagonal(self, offset: int) -> Float[Tensor, "batch head row"]:
        """Return each query's weight on the key so many places on, of queries that have it."""
        return self.pattern.diagonal(self.first + offset, -2, -1)

    @property
    def _on_cpu(self) -> bool:
        """True if numpy can work on it: the processor holds it, and no gradient is asked for."""
        return self.pattern.device.type == "cpu" and not self.pattern.requires_grad


def scaled_entropy(parts: Tensor, mass: Tensor, most: float | None = None) -> Tensor:
    """Compute the entropy of weights m p from -sum m p ln(m p) = m H(p) - m ln m; 0 without weight.

    Weights of more than `most` count as that: only rounding makes them so.
    There is no test whether any weights are short of 1: a graphics card would have to wait for it.
    """
    mass = mass.clamp(LEAST, most)
    return torch.addcdiv(mass.log(), parts, mass).clamp(min=0.0)


def part_of(tensor: Tensor, batch: slice, *axes: slice) -> Tensor:
    """Cut some texts; a first axis of 1 stands for all of them."""
    return tensor[slice(None) if len(tensor) == 1 else batch, *axes]
