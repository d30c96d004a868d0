"""Where a layer adds to the residual stream: what is added up there, in the units of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.frozen import FrozenNorm, frozen
from mha_viz.circuits.layout import Site, unknown_layout
from mha_viz.circuits.residual import ResidualStream


@dataclass(frozen=True)
class Sum:
    """One place where a layer adds up: whole = residual + heads + MLP + bias, at every token.

    Args:
        layer: from 0.
        whole: the stream behind it; of a post-norm family behind the norm.
        residual: the part of the stream before it.
        bias: what is no token's: W_V's bias through W_O, b_O, and the norms' biases; 0 where there
            is no attention and no norm.
        mlp: what the MLP writes here, its own biases included; None where it writes elsewhere.
        factor: on what heads write.
        norms: that what heads write passes on its way here; None where they write elsewhere.
    """

    layer: int
    whole: Float[Tensor, "position d_model"]
    residual: Float[Tensor, "position d_model"]
    bias: Float[Tensor, "position d_model"]
    mlp: Float[Tensor, "position d_model"] | None
    factor: float = 1.0
    norms: tuple[FrozenNorm, ...] | None = None

    def from_heads(
        self, written: Float[Tensor, "row position d_model"], at: Sequence[int]
    ) -> Float[Tensor, "row position d_model"]:
        """What heads write, in the units of this sum.

        Args:
            written: any vectors that W_O gives.
            at: the token of each position.
        """
        found = written * self.factor if self.factor != 1 else written
        for norm in self.norms or ():
            found = FrozenNorm(norm.factor[list(at)], None, norm.centred).linear(found)
        return found


@dataclass(frozen=True)
class _Heard:
    """What one layer's modules were given and gave."""

    stream: ResidualStream
    layer: int

    def calls(self, sites: Sequence[Site]) -> list[tuple[Site, Tensor, Tensor]]:
        """Of each module of this layer its input and output, where both are vectors a token."""
        found = []
        shape = self.stream.whole(0).shape
        for site in sites:
            of = [name.split(" ")[0] for name in site.writes]
            if f"L{self.layer}" not in of:
                continue
            x, y = self.stream.run.heard[site.module][of.index(f"L{self.layer}")]
            if y is not None and y.shape == shape:
                found.append((site, x, y))
        return found

    def norm_of(self, x: Tensor) -> tuple[FrozenNorm, Tensor] | None:
        """The norm of this layer that was given x, as it was in this run, and what it gave."""
        for site, given, y in self.calls(self.stream.run.layout.norms):
            if given.shape == x.shape and _same(given, x):
                norm = frozen(site.module, given, y)
                if norm is None:
                    raise self.unknown(f"{site.path} is no LayerNorm and no RMSNorm")
                return norm, y
        return None

    def reads_norm_of(self, given: Tensor | None, x: Tensor) -> bool:
        """Whether something was given what any norm of this layer made of x."""
        norms = self.calls(self.stream.run.layout.norms)
        return any(_same(read, x) and _same(given, y) for _, read, y in norms)

    def unknown(self, why: str) -> Exception:
        return unknown_layout(self.stream.model, why)


def sums_of(stream: ResidualStream, layer: int) -> tuple[Sum, ...]:
    """The sums of a layer in their order: attention's and the MLP's, or one for both.

    One where both read the same stream (GPT-NeoX). How a family lays them out is read off the
    numbers of this run, and that the parts sum to the stream is checked.

    Args:
        stream: of all tokens of a text.
        layer: from 0.

    Raises:
        AttentionUnavailableError: a layer that adds up in a way that is not known here.
    """
    heard = _Heard(stream, layer)
    layout = stream.run.layout
    x, y = stream.whole(layer), stream.whole(layer + 1)
    ((_, _, written),) = heard.calls(layout.outputs)
    ((_, mlp_reads, mlp),) = heard.calls(layout.mlps)
    own, attention = _on_its_way(heard, written)
    own_mlp, mlp = _on_its_way(heard, mlp)
    after = heard.norm_of(x + attention)
    last = None if after is None else heard.norm_of(after[1] + mlp)
    if after is not None and last is not None and _same(last[1], y):
        sums: tuple[Sum, ...] = _post_norm(stream, layer, own, own_mlp, mlp, after, last)
    else:
        sums = _pre_norm(heard, own, own_mlp, attention, mlp, mlp_reads)
    for one in sums:
        _check(stream, one)
    return sums


def _on_its_way(heard: _Heard, written: Tensor) -> tuple[tuple[FrozenNorm, ...], Tensor]:
    """What becomes of something written before it is added: a norm of its own (Gemma 2) or none."""
    found = heard.norm_of(written)
    return ((), written) if found is None else ((found[0],), found[1])


def _post_norm(
    stream: ResidualStream,
    layer: int,
    own: tuple[FrozenNorm, ...],
    own_mlp: tuple[FrozenNorm, ...],
    mlp: Tensor,
    after: tuple[FrozenNorm, Tensor],
    last: tuple[FrozenNorm, Tensor],
) -> tuple[Sum, Sum]:
    """Each sum passes a norm before anything reads it (BERT): so do the parts, its scale frozen."""
    (first, middle), (second, y) = after, last
    bias = _attention_bias(stream, layer, (*own, first), 1.0)
    return (
        Sum(layer, middle, _linear(first, stream.whole(layer)), bias, None, 1.0, (*own, first)),
        Sum(
            *(layer, y, _linear(second, middle)),
            _passed(torch.zeros_like(y), (*own_mlp, second)),
            _linear(second, mlp - _passed(torch.zeros_like(y), own_mlp)),
        ),
    )


def _pre_norm(
    heard: _Heard,
    own: tuple[FrozenNorm, ...],
    own_mlp: tuple[FrozenNorm, ...],
    attention: Tensor,
    mlp: Tensor,
    mlp_reads: Tensor | None,
) -> tuple[Sum, ...]:
    """The stream itself is never normalised: y = x + factor * (attention + MLP)."""
    stream, layer = heard.stream, heard.layer
    x, y = stream.whole(layer), stream.whole(layer + 1)
    factor = float(getattr(stream.model.config, "residual_multiplier", 1.0))  # Granite
    bias = _attention_bias(stream, layer, own, factor)
    mlp_bias = factor * _passed(torch.zeros_like(y), own_mlp)
    mlp = factor * mlp - mlp_bias
    middle = x + factor * attention
    if _same(mlp_reads, middle) or heard.norm_of(middle) is not None:
        return (
            Sum(layer, middle, x, bias, None, factor, own),
            Sum(layer, y, middle, mlp_bias, mlp),
        )
    if not _same(mlp_reads, x) and not heard.reads_norm_of(mlp_reads, x):
        raise heard.unknown(
            f"layer {layer}'s MLP reads neither what enters nor what attention left"
        )
    return (Sum(layer, y, x, bias + mlp_bias, mlp, factor, own),)


def _attention_bias(
    stream: ResidualStream, layer: int, norms: tuple[FrozenNorm, ...], factor: float
) -> Tensor:
    return factor * _passed(stream.values[f"L{layer} attention bias"], norms)


def _passed(x: Tensor, norms: tuple[FrozenNorm, ...]) -> Tensor:
    """A bias behind these norms, with theirs."""
    for norm in norms:
        x = _linear(norm, x) if norm.bias is None else _linear(norm, x) + norm.bias
    return x


def _linear(norm: FrozenNorm, x: Tensor) -> Tensor:
    return norm.linear(x[None])[0]


def _check(stream: ResidualStream, one: Sum) -> None:
    """That the parts sum to the whole."""
    parts = one.residual + one.bias
    if one.mlp is not None:
        parts = parts + one.mlp
    if one.norms is not None:
        heads = (f"L{one.layer} H{head}" for head in range(stream.model.n_heads))
        written = torch.stack([stream.values[name] for name in heads]).sum(0)
        parts = parts + one.from_heads(written[None], range(len(written)))[0]
    stream.check_sum(parts, one.whole)


def _same(given: Tensor | None, expected: Tensor) -> bool:
    """The same vector at every token but for the last digits.

    No further apart, for some tokens have a number thousands of times as large as all others. In
    half precision the last digits are a percent: there, the same additions give the same numbers.
    """
    if given is None or given.shape != expected.shape:
        return False
    if torch.finfo(expected.dtype).bits < 32:
        return torch.equal(given, expected)
    allowed = 8 * torch.finfo(expected.dtype).eps * expected.abs().amax(-1, keepdim=True)
    return bool(((given - expected).abs() <= allowed).all())
