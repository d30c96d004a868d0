"""One run with frozen attention weights and norms, as a sum over paths to one number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.attribution.frozen import LinearMap
from mha_viz.circuits.attribution.layout import unknown_layout
from mha_viz.circuits.attribution.residual import ResidualStream
from mha_viz.circuits.attribution.residual_sums import ResidualSum, residual_sums
from mha_viz.engine.projections import repeat_heads
from mha_viz.engine.run import rounding


class Parts(NamedTuple):
    """One value, or one truth value, for each part of a sum at every token."""

    residual: Tensor  # (position,), of the stream before the sum
    heads: Tensor  # (head, query, key); no heads where they write elsewhere
    mlp: Tensor  # (position,); 0 where it writes elsewhere
    bias: Tensor  # (position,)

    def into(self) -> Bool[Tensor, " position"]:
        """Tell which tokens' sums have a part that is not 0."""
        single = (self.residual != 0) | (self.mlp != 0) | (self.bias != 0)
        return single | (self.heads != 0).any(0).any(-1)

    def out_of(self) -> Bool[Tensor, " position"]:
        """Tell which tokens' streams before the sum give a part that is not 0."""
        return (self.residual != 0) | (self.heads != 0).any(0).any(0)

    def at(self, reached: Bool[Tensor, " position"]) -> "Parts":
        """Set the parts of all other tokens' sums to 0."""
        residual, heads, mlp, bias = (
            part * (reached[:, None] if part.ndim == 3 else reached) for part in self
        )
        return Parts(residual, heads, mlp, bias)

    def pooled(self) -> "Parts":
        """Sum over tokens: one stands for all."""
        single = (part.sum(0, keepdim=True) for part in (self.residual, self.mlp, self.bias))
        residual, mlp, bias = single
        return Parts(residual, self.heads.sum((1, 2), keepdim=True), mlp, bias)

    def sum(self) -> float:
        """Sum all parts."""
        return float(sum(part.double().sum() for part in self))


@dataclass(frozen=True)
class PathSum:
    """One sum of a layer as a linear map of the stream before it, weights and norms frozen."""

    parts: ResidualSum
    bias: Float[Tensor, "position d_model"]  # with what heads read of a norm's bias
    # (head, query, key), W_O (head, d_head, d_model) and the values' map; of the sum of heads alone
    pattern: Float[Tensor, "head query key"] | None = None
    W_O: Float[Tensor, "head d_head d_model"] | None = None
    values: LinearMap | None = None

    @property
    def layer(self) -> int:
        """The layer whose sum it is."""
        return self.parts.layer

    def every(self) -> Parts:
        """Mark all parts."""
        ones = torch.ones_like(self.bias[:, 0], dtype=torch.bool)
        n_heads, n = 0 if self.pattern is None else len(self.pattern), len(ones)
        return Parts(ones, ones.new_ones(n_heads, n, n), ones.clone(), ones.clone())

    def value(self, x: Float[Tensor, "position d_model"]) -> Float[Tensor, "head key d_head"]:
        """Compute each head's values of a stream, without biases."""
        assert self.values is not None and self.pattern is not None
        return repeat_heads(self.values(x), len(self.pattern))[0].to(x.dtype)

    def forward(
        self, x: Float[Tensor, "position d_model"], kept: Parts | None
    ) -> Float[Tensor, "position d_model"]:
        """Add up the parts that are kept (all without `kept`) of a stream x."""
        passing, mlp = self.parts.passing, self.parts.mlp
        residual = x if passing is None else passing.linear(x[None])[0]
        found = residual * _column(kept and kept.residual)
        found = found + self.bias * _column(kept and kept.bias)
        if mlp is not None:
            found = found + mlp * _column(kept and kept.mlp)
        if self.pattern is not None:
            weights = self.pattern if kept is None else self.pattern * kept.heads
            z = torch.einsum("hqk,hkd->hqd", weights, self.value(x))
            written = torch.einsum("hqd,hdm->qm", z, self.W_O)
            found = found + self.parts.from_heads(written[None], range(len(written)))[0]
        return found

    def contributions(
        self, x: Float[Tensor, "position d_model"], gradient: Float[Tensor, "position d_model"]
    ) -> Parts:
        """Compute each part's product with the gradient by this sum."""
        passing, mlp = self.parts.passing, self.parts.mlp
        residual = x if passing is None else passing.linear(x[None])[0]
        heads = gradient.new_zeros(0, len(x), len(x))
        if self.pattern is not None:
            through = self._through(gradient)
            heads = self.pattern * torch.einsum("hqd,hkd->hqk", through, self.value(x))
        none = torch.zeros_like(gradient)
        single = ((part * gradient).sum(-1) for part in (residual, none if mlp is None else mlp))
        residual, written = single
        return Parts(residual, heads, written, (self.bias * gradient).sum(-1))

    def backward(
        self, gradient: Float[Tensor, "position d_model"], kept: Parts | None
    ) -> Float[Tensor, "position d_model"]:
        """Compute the gradient by the stream before the sum, over what is kept."""
        passing = self.parts.passing
        below = gradient * _column(kept and kept.residual)
        below = below if passing is None else passing.transposed(below)
        if self.pattern is None or self.values is None:
            return below
        weights = self.pattern if kept is None else self.pattern * kept.heads
        by_value = torch.einsum("hqk,hqd->hkd", weights, self._through(gradient))
        own = self.values.made[1]  # key heads, of which several query heads may share one
        shared = by_value.unflatten(0, (own, len(by_value) // own)).sum(1)
        return below + self.values.transposed(shared).to(below.dtype).reshape(below.shape)

    def _through(self, gradient: Tensor) -> Float[Tensor, "head query d_head"]:
        assert self.W_O is not None
        return torch.einsum("hdm,qm->hqd", self.W_O, self.parts.to_heads(gradient))


class FrozenPaths:
    """All sums of one run, from the first layer's up, and the stream that enters the first.

    With attention weights and the scales of norms frozen, every head is linear in the stream, and
    what leaves the last layer is a sum over paths: each begins in an input token, an MLP or a bias
    and passes residual positions and heads. An MLP is a beginning, because no split of what it
    writes by what it read is exact. That the sums give the run's own stream is checked.
    """

    def __init__(self, stream: ResidualStream) -> None:
        """Take a run that was recorded at the first tokens, up to the one that predicts."""
        self.n, self.n_layers = len(stream.positions), stream.model.n_layers
        self.n_heads = stream.model.n_heads
        self.start = stream.whole(0).to(stream.wide)
        maps = stream.value_maps()
        self.sums: list[PathSum] = []
        for layer in range(self.n_layers):
            for one in residual_sums(stream, layer):
                plain = one.norms is None
                self.sums.append(
                    PathSum(one, one.bias) if plain else _of_heads(stream, one, maps[layer])
                )
        for made, found in zip(self.sums, self.forward(None)[1:], strict=True):
            stream.check_sum(found, made.parts.whole)

    @property
    def step(self) -> int:
        """The levels that one sum takes: 1, or 2 where attention and MLP write into one sum."""
        return 2 * self.n_layers // len(self.sums)

    def forward(self, kept: Sequence[Parts] | None) -> list[Float[Tensor, "position d_model"]]:
        """Compute the stream before each sum and behind the last, over what is kept."""
        found = [self.start]
        for i, one in enumerate(self.sums):
            found.append(one.forward(found[-1], None if kept is None else kept[i]))
        return found

    def contributions(
        self, gradient: Float[Tensor, "position d_model"], kept: Sequence[Parts] | None
    ) -> list[Parts]:
        """Compute what each part adds over all paths that are kept, of all without `kept`.

        The gradient is that of the number by the stream behind the last layer.
        """
        streams = self.forward(kept)
        found: list[Parts] = []
        for i, one in reversed(list(enumerate(self.sums))):
            mine = None if kept is None else kept[i]
            parts = one.contributions(streams[i], gradient)
            if mine is not None:
                parts = Parts(*(part * keep for part, keep in zip(parts, mine, strict=True)))
            found.append(parts)
            gradient = one.backward(gradient, mine)
        return found[::-1]


def strongest(found: Sequence[Parts], top: int, share: float) -> list[Parts]:
    """Choose the largest parts that hold a share of all, on paths from a beginning to the top.

    The parts that count are those of heads, MLPs and biases, and what input tokens pass past the
    first sum. The stream past later sums is kept wherever it leads from one of them to another. The
    least size of a part is the largest one with which the kept parts' absolute values sum to
    `share` of those of all; with 1 all that are not 0 are kept.
    """
    sizes = torch.cat([part.flatten() for parts in _counted(found) for part in parts]).abs()
    total = float(sizes.double().sum())
    least = sizes[sizes > 0].unique()  # ascending
    low, high = 0, 0 if share >= 1 else len(least) - 1
    while low < high:  # the last one that holds enough
        middle = (low + high + 1) // 2
        kept = _connected(found, top, float(least[middle]))
        held = sum(
            float(part[mask].abs().double().sum())
            for parts, masks in zip(_counted(found), _counted(kept), strict=True)
            for part, mask in zip(parts, masks, strict=True)
        )
        low, high = (middle, high) if held >= share * total else (low, middle - 1)
    return _connected(found, top, float(least[low]) if len(least) else 0.0)


def _counted(found: Sequence[Parts]) -> list[tuple[Tensor, ...]]:
    """Leave out the streams past all sums but the first."""
    return [tuple(parts if i == 0 else parts[1:]) for i, parts in enumerate(found)]


def _connected(found: Sequence[Parts], top: int, least: float) -> list[Parts]:
    """Mark the parts of some size that paths from a beginning to the top have, and these paths."""
    reached = torch.zeros_like(found[0].residual, dtype=torch.bool)
    reached[top] = True
    kept: list[Parts] = []
    for i, parts in reversed(list(enumerate(found))):
        large = [(part.abs() >= least) & (part != 0) for part in parts]
        passing = large[0] if i == 0 else parts.residual != 0
        kept.append(Parts(passing, *large[1:]).at(reached))
        reached = kept[-1].out_of()
    kept.reverse()
    alive = torch.ones_like(reached)
    for i, (residual, heads, mlp, bias) in enumerate(kept):
        kept[i] = Parts(residual & alive, heads & alive, mlp, bias)
        alive = kept[i].into()
    return kept


def _of_heads(stream: ResidualStream, one: ResidualSum, values: LinearMap) -> PathSum:
    """Put what its heads need to a sum; a norm's bias that they read goes to the biases."""
    layer, n = one.layer, len(stream.positions)
    pattern = stream.run.probe.kept["pattern"][layer][0][:, :, :n]
    made = stream.run.probe.kept["value"][layer][0][:, :n] - stream.b_V[layer][:, None]
    constant = made - values(stream.whole(layer))[0]
    bias = constant.mean(1, keepdim=True)
    if not float((constant - bias).abs().max()) <= rounding(made.dtype) * float(made.abs().max()):
        raise unknown_layout(stream.model, f"layer {layer}'s values are no linear map of its input")
    moved = repeat_heads(bias[None], len(pattern))[0]
    W_O = stream.W_O(layer)
    written = torch.einsum("hqk,hkd,hdm->qm", pattern, moved.expand(-1, n, -1), W_O)
    norms = one.from_heads(written[None], range(n))[0]
    return PathSum(one, one.bias + norms, pattern.to(stream.wide), W_O.to(stream.wide), values)


def _column(kept: Tensor | None) -> Tensor | float:
    """Return truth values as a column of factors; 1 where all is kept."""
    return 1.0 if kept is None else kept[:, None]
