"""The sums by which a layer adds to the residual stream, each with its parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.attribution.layout import Site, unknown_layout
from mha_viz.circuits.attribution.linear_maps import LinearNorm
from mha_viz.circuits.attribution.residual_stream import ResidualStream


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

    def times(self, at: Tensor) -> "Parts":
        """Multiply all parts of each token's sum with one number, or keep those of some tokens."""
        return Parts(*(part * (at[:, None] if part.ndim == 3 else at) for part in self))

    def where(self, marked: "Parts") -> "Parts":
        """Set the parts that are not marked to 0."""
        return Parts(*(part * mark for part, mark in zip(self, marked, strict=True)))

    def pooled(self) -> "Parts":
        """Sum over tokens: one stands for all."""
        single = (part.sum(0, keepdim=True) for part in (self.residual, self.mlp, self.bias))
        residual, mlp, bias = single
        return Parts(residual, self.heads.sum((1, 2), keepdim=True), mlp, bias)


@dataclass(frozen=True)
class ResidualSum:
    """One sum of a layer: total = residual + heads + MLP + bias, at every token."""

    layer: int
    # the stream behind it; of a post-norm family behind the norm
    total: Float[Tensor, "position d_model"]
    residual: Float[Tensor, "position d_model"]  # the part of the stream before it
    bias: Float[Tensor, "position d_model"]  # W_V's bias through W_O, b_O, and the norms' biases
    mlp: Float[Tensor, "position d_model"] | None  # with its biases; None where it writes elsewhere
    factor: float = 1.0  # on what heads write
    norms: tuple[LinearNorm, ...] | None = None  # on the heads' way here; None: elsewhere
    passing: LinearNorm | None = None  # on the way of the stream before it; None: as it is

    def from_heads(
        self, written: Float[Tensor, "row position d_model"], at: Sequence[int]
    ) -> Float[Tensor, "row position d_model"]:
        """Map vectors that W_O gives at some tokens to the units of this sum."""
        moved = written * self.factor if self.factor != 1 else written
        for norm in self.norms or ():
            moved = norm.at(list(at)).carry(moved)
        return moved

    def to_heads(self, gradient: Float[Tensor, "position d"]) -> Float[Tensor, "position d"]:
        """Map a gradient by this sum to one by what W_O gives: `from_heads`, transposed."""
        for norm in reversed(self.norms or ()):
            gradient = norm.pull_back(gradient)
        return gradient * self.factor if self.factor != 1 else gradient


class LayerCalls:
    """The inputs and outputs of one layer's modules in a run."""

    def __init__(self, stream: ResidualStream, layer: int) -> None:
        """Take the calls that belong to the layer, of modules that layers may share."""
        layout = stream.run.layout
        self.stream, self.layer = stream, layer
        self.norms = self._calls(layout.norms)
        ((_, _, self.attention),) = self._calls(layout.outputs)
        ((_, self.mlp_reads, self.mlp),) = self._calls(layout.mlps)

    def _calls(self, sites: Sequence[Site]) -> list[tuple[Site, Tensor, Tensor]]:
        """List modules with input and output, where both are vectors a token."""
        calls = []
        for site in sites:
            layers = [name.split(" ")[0] for name in site.writes]
            if f"L{self.layer}" in layers:
                x, y = self.stream.run.calls[site.module][layers.index(f"L{self.layer}")]
                if y is not None and y.shape == self.stream.entering(0).shape:
                    calls.append((site, x, y))
        return calls

    def norm_of(self, x: Tensor) -> tuple[LinearNorm, Tensor] | None:
        """Return the norm that was given x, and its output; None without one."""
        for site, norm_input, y in self.norms:
            if same(norm_input, x):
                return self.stream.run.norm(site, norm_input, y), y
        return None

    def on_its_way(self, written: Tensor) -> tuple[tuple[LinearNorm, ...], Tensor]:
        """Apply the norm that an output passes before it is added (Gemma 2), if there is one."""
        norm = self.norm_of(written)
        return ((), written) if norm is None else ((norm[0],), norm[1])

    def has_mlp_behind(self, middle: Tensor) -> bool:
        """Tell whether the MLP reads the stream behind attention, or what a norm makes of it."""
        return same(self.mlp_reads, middle) or self.norm_of(middle) is not None

    def check_mlp_reads(self, x: Tensor) -> None:
        """Raise AttentionUnavailableError unless the MLP reads x, or what a norm makes of it."""
        normed = [y for _, norm_input, y in self.norms if same(norm_input, x)]
        if not any(same(self.mlp_reads, read) for read in (x, *normed)):
            why = f"layer {self.layer}'s MLP reads neither what enters nor what attention left"
            raise unknown_layout(self.stream.model, why)


def residual_sums(stream: ResidualStream, layer: int) -> tuple[ResidualSum, ...]:
    """List the sums of a layer in their order: attention's and the MLP's, or one for both.

    One where both read the same stream (GPT-NeoX). How a family lays them out is read off the
    numbers of this run, and that the parts sum to the stream is checked.
    """
    calls = LayerCalls(stream, layer)
    x, y = stream.entering(layer), stream.entering(layer + 1)
    behind_heads, attention = calls.on_its_way(calls.attention)
    after = calls.norm_of(x + attention)
    last = None if after is None else calls.norm_of(after[1] + calls.on_its_way(calls.mlp)[1])
    if after is not None and last is not None and same(last[1], y):
        sums = _normed_sums(calls, after, last)
    else:
        # The stream is never normed: y = x + factor * (attention + MLP).
        factor = float(getattr(stream.model.config, "residual_multiplier", 1.0))  # Granite
        own_mlp, mlp = calls.on_its_way(calls.mlp)
        bias = factor * _passed(stream.values[f"L{layer} attention bias"], behind_heads)
        mlp_bias = factor * _passed(torch.zeros_like(y), own_mlp)
        mlp, middle = factor * mlp - mlp_bias, x + factor * attention
        if calls.has_mlp_behind(middle):
            sums = (
                ResidualSum(layer, middle, x, bias, None, factor, behind_heads),
                ResidualSum(layer, y, middle, mlp_bias, mlp),
            )
        else:
            calls.check_mlp_reads(x)
            sums = (ResidualSum(layer, y, x, bias + mlp_bias, mlp, factor, behind_heads),)
    for addition in sums:
        _check(stream, addition)
    return sums


def _normed_sums(
    calls: LayerCalls, after: tuple[LinearNorm, Tensor], last: tuple[LinearNorm, Tensor]
) -> tuple[ResidualSum, ...]:
    """Make the sums of a layer that are normed before anything reads them (BERT).

    `after` and `last` are the norms of attention's and the MLP's sum, and their outputs.
    """
    (first, middle), (second, normed), layer = after, last, calls.layer
    x, zero = calls.stream.entering(layer), torch.zeros_like(normed)
    (behind_heads, _), (own_mlp, mlp) = (
        calls.on_its_way(calls.attention),
        calls.on_its_way(calls.mlp),
    )
    heads = (*behind_heads, first)
    bias = _passed(calls.stream.values[f"L{layer} attention bias"], heads)
    mlp = second.carry(mlp - _passed(zero, own_mlp))
    mlp_bias = _passed(zero, (*own_mlp, second))
    return (
        ResidualSum(layer, middle, first.carry(x), bias, None, norms=heads, passing=first),
        ResidualSum(layer, normed, second.carry(middle), mlp_bias, mlp, passing=second),
    )


def _passed(x: Tensor, norms: tuple[LinearNorm, ...]) -> Tensor:
    """Pass a bias through norms, and add theirs."""
    for norm in norms:
        x = norm.carry(x) if norm.bias is None else norm.carry(x) + norm.bias
    return x


def _check(stream: ResidualStream, addition: ResidualSum) -> None:
    """Check that the parts sum to the whole."""
    parts = addition.residual + addition.bias
    if addition.mlp is not None:
        parts = parts + addition.mlp
    if addition.norms is not None:
        heads = (f"L{addition.layer} H{head}" for head in range(stream.model.n_heads))
        written = torch.stack([stream.values[name] for name in heads]).sum(0)
        parts = parts + addition.from_heads(written[None], range(len(written)))[0]
    stream.check_sum(parts, addition.total)


def same(tensor: Tensor | None, expected: Tensor) -> bool:
    """Compare vectors but for the last digits.

    Some tokens have a number thousands of times as large as all others, so nothing wider will do.
    In half precision the last digits are a percent: there, the same additions give the same
    numbers.
    """
    if tensor is None or tensor.shape != expected.shape:
        return False
    if torch.finfo(expected.dtype).bits < 32:
        return torch.equal(tensor, expected)
    allowed = 8 * torch.finfo(expected.dtype).eps * expected.abs().amax(-1, keepdim=True)
    return bool(((tensor - expected).abs() <= allowed).all())
