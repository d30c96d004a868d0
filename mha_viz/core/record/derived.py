"""Weights that follow from another record's: of words for sub-words, or of some tokens alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.scoring import Rows, row_blocks
from mha_viz.core.metrics.baselines import uniform_rows
from mha_viz.core.record.patterns import HeadRows, Patterns

_NOTHING = 1e-6  # a row's mass below this is a softmax's rounding; scaled up, it would show noise


class Runs:
    """Neighbouring tokens that make a word each; `places` are their words, ascending from 0."""

    def __init__(self, run_numbers: Int[Tensor, " token"]) -> None:
        self.sizes = torch.bincount(run_numbers)
        self.starts = self.sizes.cumsum(0) - self.sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, words: Rows) -> tuple[Int[Tensor, " token"], Runs]:
        """Return the tokens of some words, and the words as runs of these tokens alone."""
        sizes, starts = self.sizes[words], self.starts[words]
        number = torch.arange(len(sizes)).repeat_interleave(sizes)
        runs = Runs(number)
        return torch.arange(len(number)) + (starts - runs.starts)[number], runs

    def summed(self, tensor: Float[Tensor, "..."], axis: int) -> Float[Tensor, "..."]:
        """Sum the tokens of each word on an axis.

        >>> Runs(torch.tensor([0, 0, 1])).summed(torch.tensor([1.0, 2.0, 4.0]), 0)
        tensor([3., 4.])
        """
        sums = tensor.index_select(axis, self.starts)
        for part in range(1, int(self.sizes.max())):
            (longer,) = torch.nonzero(self.sizes > part, as_tuple=True)
            sums.index_add_(axis, longer, tensor.index_select(axis, self.starts[longer] + part))
        return sums

    def averaged(self, tensor: Float[Tensor, "..."], axis: int) -> Float[Tensor, "..."]:
        """Average the tokens of each word on an axis."""
        sizes = self.sizes.to(tensor.dtype)
        return self.summed(tensor, axis) / sizes.view(-1, *[1] * (tensor.ndim - axis - 1))


@dataclass(frozen=True, eq=False)
class _OnOtherAxes(Patterns):
    """Weights on axes of their own that follow from those of `base`."""

    base: Patterns
    queries: Any
    keys: Any

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, queries and keys."""
        return *self.base.shape[:2], len(self.queries), len(self.keys)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors in memory."""
        return self.base.tensors


@dataclass(frozen=True, eq=False)
class MergedPatterns(_OnOtherAxes):
    """The weights of words: the mass to all tokens of one, averaged over all from one."""

    queries: Runs
    keys: Runs

    def rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows of some heads (None for all), up to the last key that is seen."""
        tokens, words = self.queries.at(rows)
        block = words.averaged(self.base.full_rows(layer, tokens, heads), 1)
        return self.keys.summed(block, 2).clamp_(0.0, 1.0)

    def visible_keys(self, layer: int, rows: Rows = slice(None)) -> Bool[Tensor, "row key"] | None:
        """Return which keys some queries may see."""
        tokens, words = self.queries.at(rows)
        is_visible = self.base.visible_keys(layer, tokens)
        return (
            None
            if is_visible is None
            else self.keys.summed(words.summed(is_visible.float(), 0), 1) > 0
        )

    def seen_by_tokens(self, layer: int) -> Bool[Tensor, "query_token key_token"] | None:
        """Return which of the tokens that words were merged from see which others."""
        return self.base.seen_by_tokens(layer)

    @property
    def n_tokens(self) -> tuple[Int[Tensor, "query"], Int[Tensor, "key"]]:
        """The number of tokens that each place of either axis was, before words were merged."""
        return self.queries.sizes, self.keys.sizes


@dataclass(frozen=True, eq=False)
class ReplacedPatterns(Patterns):
    """The weights of a run in which those of some heads were replaced."""

    base: Patterns  # the weights that queries and keys give
    heads: Mapping[int, Sequence[int]]  # layer -> the heads whose weights were replaced
    # where theirs are from; None: the same weight for every key that a query sees
    source: Patterns | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, queries and keys."""
        return self.base.shape

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors in memory."""
        return self.base.tensors + ([] if self.source is None else self.source.tensors)

    def rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows of some heads (None for all), up to the last key that is seen."""
        weights = self.base.full_rows(layer, rows, heads).clone()
        wanted = range(self.shape[1]) if heads is None else heads
        replaced = self.heads.get(layer, ())
        at = [index for index, head in enumerate(wanted) if head in replaced]
        if at and self.source is not None:
            weights[at] = self.source.full_rows(layer, rows, [wanted[index] for index in at])
        elif at:
            is_visible = self.base.visible_keys(layer, rows)
            assert is_visible is not None  # what a run computes from queries and keys
            weights[at] = uniform_rows(is_visible)
        return weights

    def visible_keys(self, layer: int, rows: Rows = slice(None)) -> Bool[Tensor, "row key"] | None:
        """Return which keys some queries may see."""
        return self.base.visible_keys(layer, rows)


@dataclass(frozen=True, eq=False)
class KeptPatterns(_OnOtherAxes):
    """The weights between some tokens alone; `renormalize` scales rows back to a sum of 1."""

    queries: Int[Tensor, " query"]
    keys: Int[Tensor, " key"]
    renormalize: bool

    def rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows of some heads (None for all), up to the last key that is seen."""
        weights = self.base.full_rows(layer, self.queries[rows], heads)[..., self.keys]
        if self.renormalize:
            mass = weights.sum(-1, keepdim=True)
            weights = torch.where(mass > _NOTHING, weights / mass.clamp_min(_NOTHING), 0.0)
        return weights

    def visible_keys(self, layer: int, rows: Rows = slice(None)) -> Bool[Tensor, "row key"] | None:
        """Return which keys some queries may see."""
        is_visible = self.base.visible_keys(layer, self.queries[rows])
        return None if is_visible is None else is_visible[:, self.keys]

    def seen_by_tokens(self, layer: int) -> Bool[Tensor, "query_token key_token"] | None:
        """Return which of the tokens that words were merged from see which others."""
        is_visible = self.base.seen_by_tokens(layer)
        if is_visible is None:
            return None
        rows, columns = (
            torch.isin(torch.arange(len(sizes)), indices).repeat_interleave(sizes)
            for sizes, indices in zip(self.base.n_tokens, (self.queries, self.keys), strict=True)
        )
        return is_visible[rows][:, columns]

    @property
    def n_tokens(self) -> tuple[Int[Tensor, "query"], Int[Tensor, "key"]]:
        """The number of tokens that each place of either axis was, before words were merged."""
        queries, keys = self.base.n_tokens
        return queries[self.queries], keys[self.keys]

    def removed_mass(self) -> Float[Tensor, "layer head query"]:
        """Return the share of each row's mass that lay on the keys left out."""
        removed = torch.zeros(self.shape[:3])
        for layer in range(self.shape[0]):
            for rows in row_blocks(self.shape[2], 4 * self.shape[1] * self.base.shape[3]):
                before = self.base.full_rows(layer, self.queries[rows])
                mass, remaining = before.sum(-1), before[..., self.keys].sum(-1)
                share = 1 - remaining / mass.clamp_min(_NOTHING)
                removed[layer, :, rows] = torch.where(mass > _NOTHING, share, 0.0).clamp(0.0, 1.0)
        return removed
