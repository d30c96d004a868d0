"""One run with frozen attention weights and norms, as a sum over paths to one number."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.attribution.layout import unknown_layout
from mha_viz.circuits.attribution.linear_maps import LinearMap
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.circuits.attribution.residual_sums import Parts, ResidualSum, residual_sums
from mha_viz.engine.projections import repeat_heads
from mha_viz.engine.run import rounding


@dataclass(frozen=True)
class PathSum:
    """One sum of a layer as a linear map of the stream before it, weights and norms frozen."""

    parts: ResidualSum
    bias: Float[Tensor, "position d_model"]  # with what heads read of a norm's bias
    pattern: Float[Tensor, "head query key"]  # no heads where they write elsewhere
    W_O: Float[Tensor, "head d_head d_model"]
    values: LinearMap | None = None  # of the stream; None where heads write elsewhere

    @classmethod
    def of(cls, stream: ResidualStream, parts: ResidualSum, values: LinearMap) -> "PathSum":
        """Put to a sum what its heads need; a norm's bias that they read goes to the biases."""
        layer, n = parts.layer, len(stream.positions)
        pattern = stream.run.attention("pattern", layer)[:, :, :n]
        W_O = stream.W_O(layer)
        if parts.norms is None:
            return cls(parts, parts.bias, pattern[:0].to(stream.wide), W_O[:0].to(stream.wide))
        values_of_run = stream.run.attention("value", layer)[:, :n] - stream.b_V[layer][:, None]
        constant = values_of_run - values.carry(stream.entering(layer))[0]
        bias = constant.mean(1, keepdim=True)
        allowed = rounding(values_of_run.dtype) * float(values_of_run.abs().max())
        if not float((constant - bias).abs().max()) <= allowed:
            why = f"layer {layer}'s values are no linear map of its input"
            raise unknown_layout(stream.model, why)
        moved = repeat_heads(bias[None], len(pattern))[0]
        written = torch.einsum("hqk,hkd,hdm->qm", pattern, moved.expand(-1, n, -1), W_O)
        norms = parts.from_heads(written[None], range(n))[0]
        return cls(parts, parts.bias + norms, pattern.to(stream.wide), W_O.to(stream.wide), values)

    def every(self) -> Parts:
        """Mark all parts."""
        every = torch.ones_like(self.bias[:, 0], dtype=torch.bool)
        return Parts(
            every, torch.ones_like(self.pattern, dtype=torch.bool), every.clone(), every.clone()
        )

    def forward(
        self, x: Float[Tensor, "position d_model"], mask: Parts
    ) -> Float[Tensor, "position d_model"]:
        """Add up the parts that are kept of a stream x."""
        stream = self._residual(x) * mask.residual[:, None] + self.bias * mask.bias[:, None]
        stream = stream + self._mlp * mask.mlp[:, None]
        if self.values is None:
            return stream
        z = torch.einsum("hqk,hkd->hqd", self.pattern * mask.heads, self._value(x))
        written = torch.einsum("hqd,hdm->qm", z, self.W_O)
        return stream + self.parts.from_heads(written[None], range(len(written)))[0]

    def contributions(
        self, x: Float[Tensor, "position d_model"], gradient: Float[Tensor, "position d_model"]
    ) -> Parts:
        """Compute each part's product with the gradient by this sum."""
        heads = self.pattern
        if self.values is not None:
            through = self._through(gradient)
            heads = self.pattern * torch.einsum("hqd,hkd->hqk", through, self._value(x))
        parts = (self._residual(x), self._mlp, self.bias)
        residual, mlp, bias = ((part * gradient).sum(-1) for part in parts)
        return Parts(residual, heads, mlp, bias)

    def backward(
        self, gradient: Float[Tensor, "position d_model"], mask: Parts
    ) -> Float[Tensor, "position d_model"]:
        """Compute the gradient by the stream before the sum, over what is kept."""
        passing = self.parts.passing
        below = gradient * mask.residual[:, None]
        below = below if passing is None else passing.pull_back(below)
        if self.values is None:
            return below
        weights = self.pattern * mask.heads
        by_value = torch.einsum("hqk,hqd->hkd", weights, self._through(gradient))
        n_kv_heads = self.values.output_shape[1]  # several query heads may share one
        shared = by_value.unflatten(0, (n_kv_heads, -1)).sum(1)
        return below + self.values.pull_back(shared).to(below.dtype).reshape(below.shape)

    def _residual(self, x: Tensor) -> Tensor:
        return x if self.parts.passing is None else self.parts.passing.carry(x)

    @property
    def _mlp(self) -> Tensor:
        return torch.zeros_like(self.bias) if self.parts.mlp is None else self.parts.mlp

    def _value(self, x: Tensor) -> Float[Tensor, "head key d_head"]:
        """Compute each head's values of a stream, without biases."""
        assert self.values is not None
        return repeat_heads(self.values.carry(x), len(self.pattern))[0].to(x.dtype)

    def _through(self, gradient: Tensor) -> Float[Tensor, "head query d_head"]:
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
        self.start = stream.entering(0).to(stream.wide)
        self.sums: list[PathSum] = []
        for layer, values in enumerate(stream.value_maps()):
            sums = residual_sums(stream, layer)
            self.sums += [PathSum.of(stream, parts, values) for parts in sums]
        for path_sum, summed in zip(self.sums, self.forward(self.every())[1:], strict=True):
            stream.check_sum(summed, path_sum.parts.total)

    @property
    def step(self) -> int:
        """The levels that one sum takes: 1, or 2 where attention and MLP write into one sum."""
        return 2 * self.n_layers // len(self.sums)

    def every(self) -> list[Parts]:
        """Mark all parts of each sum."""
        return [path_sum.every() for path_sum in self.sums]

    def forward(self, masks: Sequence[Parts]) -> list[Float[Tensor, "position d_model"]]:
        """Compute the stream before each sum and behind the last, over what is kept."""
        streams = [self.start]
        for path_sum, parts in zip(self.sums, masks, strict=True):
            streams.append(path_sum.forward(streams[-1], parts))
        return streams

    def contributions(
        self, gradient: Float[Tensor, "position d_model"], masks: Sequence[Parts]
    ) -> list[Parts]:
        """Compute what each part adds over all paths that are kept.

        The gradient is that of the number by the stream behind the last layer.
        """
        streams = self.forward(masks)
        contributions: list[Parts] = []
        for path_sum, parts, x in reversed(list(zip(self.sums, masks, streams, strict=False))):
            contributions.append(path_sum.contributions(x, gradient).where(parts))
            gradient = path_sum.backward(gradient, parts)
        return contributions[::-1]


def strongest(contributions: Sequence[Parts], top: int, share: float) -> list[Parts]:
    """Choose the largest parts that hold a share of all, on paths from a beginning to the top.

    The parts that count are those of heads, MLPs and biases, and what input tokens pass past the
    first sum. The stream past later sums is kept wherever it leads from one of them to another. The
    least size of a part is the largest one with which the kept parts' absolute values sum to
    `share` of those of all; with 1 all that are not 0 are kept.
    """
    sizes = torch.cat([part.flatten() for parts in _counted(contributions) for part in parts]).abs()
    total = float(sizes.double().sum())
    least = sizes[sizes > 0].unique()  # ascending
    low, high = 0, 0 if share >= 1 else len(least) - 1
    while low < high:  # the last one that holds enough
        middle = (low + high + 1) // 2
        connected = _connected(contributions, top, float(least[middle]))
        size_of_kept = sum(
            float(part[mask].abs().double().sum())
            for parts, masks in zip(_counted(contributions), _counted(connected), strict=True)
            for part, mask in zip(parts, masks, strict=True)
        )
        low, high = (middle, high) if size_of_kept >= share * total else (low, middle - 1)
    return _connected(contributions, top, float(least[low]) if len(least) else 0.0)


def _counted(contributions: Sequence[Parts]) -> list[tuple[Tensor, ...]]:
    """Leave out the streams past all sums but the first."""
    return [tuple(parts if i == 0 else parts[1:]) for i, parts in enumerate(contributions)]


def _connected(contributions: Sequence[Parts], top: int, least: float) -> list[Parts]:
    """Mark the parts of some size that paths from a beginning to the top have, and these paths."""
    reached = torch.zeros_like(contributions[0].residual, dtype=torch.bool)
    reached[top] = True
    masks: list[Parts] = []
    for i, parts in reversed(list(enumerate(contributions))):
        large = [(part.abs() >= least) & (part != 0) for part in parts]
        passing = large[0] if i == 0 else parts.residual != 0
        masks.append(Parts(passing, *large[1:]).times(reached))
        reached = masks[-1].out_of()
    masks.reverse()
    alive = torch.ones_like(reached)
    for i, (residual, heads, mlp, bias) in enumerate(masks):
        masks[i] = Parts(residual & alive, heads & alive, mlp, bias)
        alive = masks[i].into()
    return masks
