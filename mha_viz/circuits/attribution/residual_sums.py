"""The sums by which a layer adds to the residual stream, and the shares of their parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.attribution.frozen import FrozenNorm, frozen
from mha_viz.circuits.attribution.layout import Site, unknown_layout
from mha_viz.circuits.attribution.residual import ResidualStream


@dataclass(frozen=True)
class ResidualSum:
    """One sum of a layer: whole = residual + heads + MLP + bias, at every token."""

    layer: int
    # the stream behind it; of a post-norm family behind the norm
    whole: Float[Tensor, "position d_model"]
    residual: Float[Tensor, "position d_model"]  # the part of the stream before it
    bias: Float[Tensor, "position d_model"]  # W_V's bias through W_O, b_O, and the norms' biases
    mlp: Float[Tensor, "position d_model"] | None  # with its biases; None where it writes elsewhere
    factor: float = 1.0  # on what heads write
    norms: tuple[FrozenNorm, ...] | None = None  # on the heads' way here; None: elsewhere
    passing: FrozenNorm | None = None  # on the way of the stream before it; None: as it is

    def from_heads(
        self, written: Float[Tensor, "row position d_model"], at: Sequence[int]
    ) -> Float[Tensor, "row position d_model"]:
        """Map vectors that W_O gives at some tokens to the units of this sum."""
        found = written * self.factor if self.factor != 1 else written
        for norm in self.norms or ():
            found = FrozenNorm(norm.factor[list(at)], None, norm.centred).linear(found)
        return found

    def to_heads(self, gradient: Float[Tensor, "position d"]) -> Float[Tensor, "position d"]:
        """Map a gradient by this sum to one by what W_O gives: `from_heads`, transposed."""
        for norm in reversed(self.norms or ()):
            gradient = norm.transposed(gradient)
        return gradient * self.factor if self.factor != 1 else gradient


@dataclass(frozen=True)
class _LayerCalls:
    """The inputs and outputs of one layer's modules."""

    stream: ResidualStream
    layer: int

    def calls(self, sites: Sequence[Site]) -> list[tuple[Site, Tensor, Tensor]]:
        """List this layer's modules with input and output, where both are vectors a token."""
        found = []
        shape = self.stream.whole(0).shape
        for site in sites:
            of = [name.split(" ")[0] for name in site.writes]
            if f"L{self.layer}" not in of:
                continue
            x, y = self.stream.run.calls[site.module][of.index(f"L{self.layer}")]
            if y is not None and y.shape == shape:
                found.append((site, x, y))
        return found

    def norm_of(self, x: Tensor) -> tuple[FrozenNorm, Tensor] | None:
        """Return this layer's norm that was given x, frozen, and its output."""
        for site, given, y in self.calls(self.stream.run.layout.norms):
            if given.shape == x.shape and _same(given, x):
                norm = frozen(site.module, given, y)
                if norm is None:
                    why = f"{site.path} is no LayerNorm and no RMSNorm"
                    raise unknown_layout(self.stream.model, why)
                return norm, y
        return None

    def on_its_way(self, written: Tensor) -> tuple[tuple[FrozenNorm, ...], Tensor]:
        """Apply the norm that an output passes before it is added (Gemma 2), if there is one."""
        found = self.norm_of(written)
        return ((), written) if found is None else ((found[0],), found[1])


def residual_sums(stream: ResidualStream, layer: int) -> tuple[ResidualSum, ...]:
    """List the sums of a layer in their order: attention's and the MLP's, or one for both.

    One where both read the same stream (GPT-NeoX). How a family lays them out is read off the
    numbers of this run, and that the parts sum to the stream is checked.
    """
    layer_calls = _LayerCalls(stream, layer)
    layout = stream.run.layout
    x, y = stream.whole(layer), stream.whole(layer + 1)
    ((_, _, written),) = layer_calls.calls(layout.outputs)
    ((_, mlp_reads, mlp),) = layer_calls.calls(layout.mlps)
    own, attention = layer_calls.on_its_way(written)
    own_mlp, mlp = layer_calls.on_its_way(mlp)
    after = layer_calls.norm_of(x + attention)
    last = None if after is None else layer_calls.norm_of(after[1] + mlp)
    if after is not None and last is not None and _same(last[1], y):
        # Sums are normed before anything reads them (BERT).
        (first, middle), (second, normed), zero = after, last, torch.zeros_like(y)
        bias = _passed(stream.values[f"L{layer} attention bias"], (*own, first))
        sums: tuple[ResidualSum, ...] = (
            ResidualSum(
                layer, middle, _linear(first, x), bias, None, norms=(*own, first), passing=first
            ),
            ResidualSum(
                layer,
                whole=normed,
                residual=_linear(second, middle),
                bias=_passed(zero, (*own_mlp, second)),
                mlp=_linear(second, mlp - _passed(zero, own_mlp)),
                passing=second,
            ),
        )
    else:
        # The stream is never normed: y = x + factor * (attention + MLP).
        factor = float(getattr(stream.model.config, "residual_multiplier", 1.0))  # Granite
        bias = factor * _passed(stream.values[f"L{layer} attention bias"], own)
        mlp_bias = factor * _passed(torch.zeros_like(y), own_mlp)
        mlp = factor * mlp - mlp_bias
        middle = x + factor * attention
        if _same(mlp_reads, middle) or layer_calls.norm_of(middle) is not None:
            sums = (
                ResidualSum(layer, middle, x, bias, None, factor, own),
                ResidualSum(layer, y, middle, mlp_bias, mlp),
            )
        else:
            norms = layer_calls.calls(layout.norms)
            made = [normed for _, read, normed in norms if _same(read, x)]
            if not any(_same(mlp_reads, one) for one in (x, *made)):
                why = f"layer {layer}'s MLP reads neither what enters nor what attention left"
                raise unknown_layout(stream.model, why)
            sums = (ResidualSum(layer, y, x, bias + mlp_bias, mlp, factor, own),)
    for one in sums:
        _check(stream, one)
    return sums


def _passed(x: Tensor, norms: tuple[FrozenNorm, ...]) -> Tensor:
    """Pass a bias through norms, and add theirs."""
    for norm in norms:
        x = _linear(norm, x) if norm.bias is None else _linear(norm, x) + norm.bias
    return x


def _linear(norm: FrozenNorm, x: Tensor) -> Tensor:
    return norm.linear(x[None])[0]


def _check(stream: ResidualStream, one: ResidualSum) -> None:
    """Check that the parts sum to the whole."""
    parts = one.residual + one.bias
    if one.mlp is not None:
        parts = parts + one.mlp
    if one.norms is not None:
        heads = (f"L{one.layer} H{head}" for head in range(stream.model.n_heads))
        written = torch.stack([stream.values[name] for name in heads]).sum(0)
        parts = parts + one.from_heads(written[None], range(len(written)))[0]
    stream.check_sum(parts, one.whole)


def _same(given: Tensor | None, expected: Tensor) -> bool:
    """Compare vectors but for the last digits.

    Some tokens have a number thousands of times as large as all others, so nothing wider will do.
    In half precision the last digits are a percent: there, the same additions give the same
    numbers.
    """
    if given is None or given.shape != expected.shape:
        return False
    if torch.finfo(expected.dtype).bits < 32:
        return torch.equal(given, expected)
    allowed = 8 * torch.finfo(expected.dtype).eps * expected.abs().amax(-1, keepdim=True)
    return bool(((given - expected).abs() <= allowed).all())


Measure = Literal["proximity", "norm"]
MEASURES: tuple[Measure, ...] = ("proximity", "norm")
_BLOCK = 2**20  # numbers that are compared at a time, which stay in the processor's cache


@dataclass(frozen=True)
class PartShares:
    """The shares of all parts of a sum at some tokens; at each token they sum to 1."""

    residual: Float[Tensor, " position"]  # of the stream before the sum
    bias: Float[Tensor, " position"]  # of all biases together
    mlp: Float[Tensor, " position"]  # 0 where it writes elsewhere
    heads: Float[Tensor, "position head key"]  # none where they write elsewhere
    by_norm: Bool[Tensor, " position"]  # no part lies nearer to the sum than zero: by norm


def part_shares(
    stream: ResidualStream, one: ResidualSum, at: Sequence[int], measure: Measure
) -> PartShares:
    """Compute the share of each part of a sum, at some tokens.

    By "proximity" a part z of the sum y counts max(0, ||y||_1 - ||y - z||_1), by "norm" ||z||_2; a
    share is that over its sum over all parts.
    """
    single = torch.zeros_like(one.whole) if one.mlp is None else one.mlp
    alone = torch.stack([one.residual, one.bias, single])[:, list(at)].to(stream.wide)
    y = one.whole[list(at)].to(stream.wide)
    raw = torch.cat([_size(alone, y, measure).T, *_of_heads(stream, one, at, y, measure)], dim=1)
    raw = raw.double()  # so that thousands of shares sum to 1
    total = raw.sum(1)
    lost = total <= 0
    if bool(lost.any()) and measure == "proximity":
        again = [place for place, without in zip(at, lost.tolist(), strict=True) if without]
        found = part_shares(stream, one, again, "norm")
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
    return PartShares(residual, bias, mlp, by_head, lost)


def _of_heads(
    stream: ResidualStream, one: ResidualSum, at: Sequence[int], y: Tensor, measure: Measure
) -> Iterator[Tensor]:
    """Compute the size of every (head, key) at these tokens, (position, head * key)."""
    if one.norms is None:
        return
    carried = stream.carried(one.layer)
    pattern = stream.run.probe.kept["pattern"][one.layer][0]
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
    """Compute how much each part counts, before all are scaled to a sum of 1."""
    if measure == "norm":
        return parts.norm(dim=-1)
    away = torch.sub(y, parts).abs_().sum(-1)
    return (y.abs().sum(-1) - away).clamp_min_(0.0)
