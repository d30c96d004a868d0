"""The shares of the parts of a sum of the residual stream: by proximity to it, or by norm."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.circuits.attribution.residual_sums import Parts, ResidualSum

Measure = Literal["proximity", "norm"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
_BLOCK = 2**20  # numbers that are compared at a time, which stay in the processor's cache


def part_shares(
    stream: ResidualStream, addition: ResidualSum, at: Sequence[int], measure: Measure
) -> tuple[Parts, int]:
    """Compute the share of each part of a sum at some tokens; at each they sum to 1.

    By "proximity" a part z of the sum y counts max(0, ||y||_1 - ||y - z||_1), by "norm" ||z||_2; a
    share is that over its sum over all parts. Where no part lies nearer to the sum than zero,
    shares are by norm; the second value is the number of such tokens. Other tokens' shares are 0.
    """
    raw = _sizes(stream, addition, at, measure)
    lost = raw.sum(1) <= 0
    if bool(lost.any()):
        again = [token for token, without in zip(at, lost.tolist(), strict=True) if without]
        raw[lost] = _sizes(stream, addition, again, "norm")
    total = raw.sum(1, keepdim=True)
    raw[total[:, 0] <= 0, 0] = 1.0  # a sum of nothing but zeros
    shares = raw.new_zeros(len(addition.total), raw.shape[1])
    shares[list(at)] = raw / torch.where(total <= 0, 1.0, total)
    residual, bias, mlp = shares[:, :3].unbind(1)
    n_keys = len(stream.encoded.input_ids)
    heads = shares[:, 3:].unflatten(1, ((shares.shape[1] - 3) // n_keys, n_keys))
    heads = heads[..., : len(residual)].transpose(0, 1)  # a causal stream may end before its text
    return Parts(residual, heads, mlp, bias), int(lost.sum())


def _sizes(
    stream: ResidualStream, addition: ResidualSum, at: Sequence[int], measure: Measure
) -> Float[Tensor, "position part"]:
    """Compute how much the stream, biases, MLP and each (head, key) count at some tokens."""
    single = torch.zeros_like(addition.total) if addition.mlp is None else addition.mlp
    alone = torch.stack([addition.residual, addition.bias, single])[:, list(at)].to(stream.wide)
    y = addition.total[list(at)].to(stream.wide)
    sizes = [_size(alone, y, measure).T]
    if addition.norms is not None:
        sizes.append(_of_heads(stream, addition, at, y, measure))
    return torch.cat(sizes, dim=1).double()  # so that thousands of shares sum to 1


def _of_heads(
    stream: ResidualStream, addition: ResidualSum, at: Sequence[int], y: Tensor, measure: Measure
) -> Float[Tensor, "position head_and_key"]:
    carried = stream.carried(addition.layer)
    pattern = stream.run.attention("pattern", addition.layer)
    n_heads, n_keys, _ = carried.shape
    sizes = y.new_empty(len(at), n_heads, n_keys)
    step = max(1, _BLOCK // carried.numel())
    for start in range(0, len(at), step):
        block = list(at[start : start + step])
        last = 1 + max(block) if stream.model.causal else n_keys  # further keys have no weight
        weights = pattern[:, block, :last].transpose(0, 1)  # (position, head, key)
        written = carried[:, :last].flatten(0, 1)
        rows = weights.flatten(1).T[..., None] * written[:, None]  # (head * key, position, d)
        rows = addition.from_heads(rows, block).to(y.dtype)
        size = _size(rows, y[start : start + step], measure)
        sizes[start : start + step, :, :last] = size.T.unflatten(1, (n_heads, last))
        sizes[start : start + step, :, last:] = 0.0
    return sizes.flatten(1)


def _size(parts: Tensor, y: Tensor, measure: Measure) -> Float[Tensor, "row position"]:
    """Compute how much each part counts, before all are scaled to a sum of 1."""
    if measure == "norm":
        return parts.norm(dim=-1)
    away = torch.sub(y, parts).abs_().sum(-1)
    return (y.abs().sum(-1) - away).clamp_min_(0.0)
