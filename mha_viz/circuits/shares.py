"""Which share each part has in a sum of vectors: what a residual position is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.residual import ResidualStream
from mha_viz.circuits.sums import Sum

Measure = Literal["proximity", "norm"]
MEASURES: tuple[Measure, ...] = ("proximity", "norm")
_BLOCK = 2**20  # numbers that are compared at a time, which stay in the processor's cache


@dataclass(frozen=True)
class Shares:
    """The shares of all parts of a sum at some tokens; at each token they sum to 1.

    Args:
        residual: of the stream before the sum.
        bias: of all biases together.
        mlp: of the MLP; 0 where it writes elsewhere.
        heads: of each token that a head takes from; no heads where they write elsewhere.
        by_norm: tokens where no part lies nearer to the sum than zero does, so that there is no
            proximity to share: their shares are by norm.
    """

    residual: Float[Tensor, " position"]
    bias: Float[Tensor, " position"]
    mlp: Float[Tensor, " position"]
    heads: Float[Tensor, "position head key"]
    by_norm: Bool[Tensor, " position"]


def shares(stream: ResidualStream, one: Sum, at: Sequence[int], measure: Measure) -> Shares:
    """What a sum is made of, at some tokens.

    Args:
        stream: that it is a sum of.
        one: the sum.
        at: the tokens.
        measure: "proximity", max(0, ||y||_1 - ||y - z||_1) of a part z in the sum y, or "norm",
            ||z||_2; each over its sum over all parts.
    """
    wide = torch.float64 if stream.whole(0).dtype == torch.float64 else torch.float32
    single = torch.zeros_like(one.whole) if one.mlp is None else one.mlp
    alone = torch.stack([one.residual, one.bias, single])[:, list(at)].to(wide)
    y = one.whole[list(at)].to(wide)
    raw = torch.cat([_size(alone, y, measure).T, *_of_heads(stream, one, at, y, measure)], dim=1)
    raw = raw.double()  # so that thousands of shares sum to 1
    total = raw.sum(1)
    lost = total <= 0
    if bool(lost.any()) and measure == "proximity":
        again = [place for place, without in zip(at, lost.tolist(), strict=True) if without]
        found = shares(stream, one, again, "norm")
        whole = torch.stack([found.residual, found.bias, found.mlp], dim=1)
        raw[lost] = torch.cat([whole, found.heads.flatten(1)], dim=1)
        total = raw.sum(1)
    empty = total <= 0  # of nothing but zeros
    raw[empty, 0] = 1.0
    raw /= torch.where(empty, 1.0, total)[:, None]
    heads = raw[:, 3:]
    n_keys = len(stream.encoded.input_ids)
    residual, bias, mlp = raw[:, :3].unbind(1)
    by_head = heads.unflatten(1, (heads.shape[1] // n_keys, n_keys))
    return Shares(residual, bias, mlp, by_head, lost)


def _of_heads(
    stream: ResidualStream, one: Sum, at: Sequence[int], y: Tensor, measure: Measure
) -> Iterator[Tensor]:
    """The size of every (head, key) at these tokens, (position, head * key); none without heads."""
    if one.norms is None:
        return
    carried = stream.carried(one.layer)
    pattern = stream.run.left.kept["pattern"][one.layer][0]
    n_heads, n_keys, _ = carried.shape
    found = y.new_empty(len(at), n_heads, n_keys)
    step = max(1, _BLOCK // carried.numel())
    for start in range(0, len(at), step):
        block = list(at[start : start + step])
        last = 1 + max(block) if stream.model.causal else n_keys  # further keys have no weight
        weights = pattern[:, block, :last].transpose(0, 1)  # (position, head, key)
        written = carried[:, :last].flatten(0, 1)
        rows = weights.flatten(1).T[..., None] * written[:, None]  # (head * key, position, d)
        rows = one.from_heads(rows, block).to(y.dtype)
        size = _size(rows, y[start : start + step], measure)
        found[start : start + step, :, :last] = size.T.unflatten(1, (n_heads, last))
        found[start : start + step, :, last:] = 0.0
    yield found.flatten(1)


def _size(parts: Tensor, y: Tensor, measure: Measure) -> Float[Tensor, "row position"]:
    """How much each part counts, before all are scaled to a sum of 1."""
    if measure == "norm":
        return parts.norm(dim=-1)
    away = torch.sub(y, parts).abs_().sum(-1)
    return (y.abs().sum(-1) - away).clamp_min_(0.0)
