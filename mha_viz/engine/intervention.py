"""Changes of heads in a run: zeroed, scaled, averaged, made uniform or patched."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import Number
from mha_viz.core.attention.dot_product import softmax
from mha_viz.core.attention.dot_product import z as mix
from mha_viz.core.attention.masks import visible
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.names import HOWS
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.derived import ReplacedPatterns
from mha_viz.core.record.patterns import Patterns
from mha_viz.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class ReferenceMeans:
    """Each head's mean z over every position of some texts, special tokens too."""

    means: Float[Tensor, "layer head d_head"]  # float32
    n_texts: int  # it and `n_positions`: how much was averaged
    n_positions: int
    part: str = "self"  # of which stack of layers

    def __repr__(self) -> str:
        return f"ReferenceMeans({self.n_texts} texts, {self.n_positions} positions)"


@dataclass(frozen=True, eq=False)
class Intervention:
    """A change of heads while a text runs: a description, which runs nothing itself.

    The ways, for a head with pattern A, values V and z = A V:

    - "zero": z becomes 0. The head adds nothing (the layer's b_O stays).
    - "scale": z becomes factor * z, by any factor; 1 changes nothing, -1 turns the head round.
    - "mean": z becomes one mean for all positions: over this text's own positions, or over those
      of `reference`, which is independent of the text. With a causal model a mean over this text
      lets a position see what comes after it.
    - "uniform": A becomes 1 / n over the n keys that the query may see.
    - "patch_z", "patch_pattern": z or A becomes that of a second text's run, `source`, of as many
      tokens (activation patching). A patched pattern mixes this text's own values.

    Args:
        heads: (layer, head) pairs, 0-based, none twice; layers by the model's own numbers, see
            `AttentionModel.layer_numbers`.
        how: one of `HOWS`.
        factor: for "scale" alone; any finite number.
        reference: for "mean": texts, or their `reference_means`; None: this text's positions.
        source: for the patches: a record of the second text, or the text itself.
        part: which stack of an encoder-decoder; the first one if not given.

    Raises:
        ArgumentError: arguments that do not fit together; the message says which.

    Source: zero and mean ablation as in Wang et al. 2023 (section 3), whose mean is over a
    reference distribution; patching Vig et al. 2020 and Meng et al. 2022.

    >>> Intervention([(0, 3), (2, 1)], "scale", factor=0.5).heads
    ((0, 3), (2, 1))
    """

    heads: Sequence[Sequence[int]]
    how: str = "zero"
    factor: Number = 0.0
    reference: Sequence[str] | ReferenceMeans | None = None
    source: AttentionRecord | str | None = None
    part: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", _pairs(self.heads))
        if self.how not in HOWS:
            raise ArgumentError(f"how must be one of {', '.join(HOWS)}; got {self.how!r}.")
        if not isinstance(self.factor, int | float) or not math.isfinite(self.factor):
            raise ArgumentError(f"factor must be a finite number, got {self.factor!r}.")
        if self.reference is not None and self.how != "mean":
            raise ArgumentError(f'reference texts belong to how="mean", got how={self.how!r}.')
        if isinstance(self.reference, str) or (
            isinstance(self.reference, Sequence) and not self.reference
        ):
            raise ArgumentError("reference must be a list of at least one text.")
        if (self.source is not None) != self.how.startswith("patch"):
            raise ArgumentError(
                f"how={self.how!r} takes no source: only patch_z and patch_pattern do."
                if self.source is not None
                else f"how={self.how!r} needs source=, a second text of as many tokens or its "
                "record."
            )


@dataclass(frozen=True, eq=False)
class Change:
    """An `Intervention` with its numbers, ready to run: what our attention function calls."""

    how: str  # it and `factor` are the intervention's own
    heads: Mapping[int, Tensor]  # layer -> the heads in it
    factor: float = 0.0
    # "mean": (layer, head, d_head); "patch_z": (layer, head, query, d_head); None: of the run
    values: Tensor | None = None
    source: Patterns | None = None  # the weights to put in, for "patch_pattern"

    @property
    def new_patterns(self) -> bool:
        """True where weights are replaced, which queries and keys then do not give."""
        return self.how in ("uniform", "patch_pattern")

    def replaced(self, patterns: Patterns) -> Patterns:
        """Return the weights of the run, of those that its queries and keys give."""
        heads = {layer: of_layer.tolist() for layer, of_layer in self.heads.items()}
        return ReplacedPatterns(patterns, heads, self.source)

    def __call__(
        self, layer: int, z: Tensor, pattern: Tensor | None, value: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return z and pattern of one layer (batch, head, query, ...) with the heads changed.

        `bias` is what was added to the scores (mask and position bias); it shows which keys a
        query may see.
        """
        heads = self.heads.get(layer)
        if heads is None:
            return z, pattern
        heads = heads.to(z.device)
        if not self.new_patterns:
            return z.index_copy(1, heads, self._z(layer, heads, z, bias)), pattern
        group = z.shape[1] // value.shape[1]  # query heads that share a key head
        new = self._pattern(layer, heads, z, value, bias)
        z = z.index_copy(1, heads, mix(new, value[:, heads // group]))
        if pattern is not None:
            pattern = pattern.clone() if pattern.requires_grad else pattern
            pattern[:, heads] = new
        return z, pattern

    def _z(self, layer: int, heads: Tensor, z: Tensor, bias: Tensor | None) -> Tensor:
        old = z[:, heads]
        if self.how == "zero":
            return torch.zeros_like(old)
        if self.how == "scale":
            return old * self.factor
        if self.values is not None:
            new = self.values[layer].to(z)[heads]
            return (new[:, None] if self.how == "mean" else new).expand_as(old).contiguous()
        weights = _real_positions(z, bias).to(z)[:, None, :, None]
        return ((old * weights).sum(2, keepdim=True) / weights.sum(2, keepdim=True)).expand_as(old)

    def _pattern(
        self, layer: int, heads: Tensor, z: Tensor, value: Tensor, bias: Tensor | None
    ) -> Tensor:
        shape = (z.shape[0], z.shape[1], z.shape[2], value.shape[2])
        if self.source is not None:
            new = self.source.full_rows(layer, slice(None), heads.tolist()).to(z)
            return new.expand(shape[0], *new.shape).contiguous()
        flat = z.new_zeros(shape[0], len(heads), *shape[2:])
        if bias is not None:
            flat = flat.masked_fill_(~visible(bias).expand(shape)[:, heads], -torch.inf)
        return softmax(flat)


def _pairs(heads: Any) -> tuple[tuple[int, int], ...]:
    """Return heads as (layer, head) numbers, each once."""
    try:
        pairs = tuple((operator.index(layer), operator.index(head)) for layer, head in heads)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"heads must be (layer, head) pairs of whole numbers such as [(3, 7)], got {heads!r}."
        ) from error
    if not pairs:
        raise ArgumentError("heads is empty: name at least one (layer, head).")
    twice = sorted({pair for pair in pairs if pairs.count(pair) > 1})
    if twice:
        names = ", ".join(head_name(*head) for head in twice)
        raise ArgumentError(f"heads names {names} more than once: name each head once.")
    return pairs


def _real_positions(z: Tensor, bias: Tensor | None) -> Tensor:
    """Return which positions are no padding, which no query may see, (batch, position)."""
    everything = torch.ones(z.shape[0], z.shape[2], dtype=torch.bool, device=z.device)
    if bias is None or bias.shape[-1] != z.shape[2]:
        return everything
    return everything & visible(bias).any(-2).any(1)
