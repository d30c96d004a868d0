"""Stand-ins that make a network linear: norms keep this run's scale, and what writes is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.engine.own_weights import rounding
from mha_viz.engine.stand_ins import StandIn


class Heard(StandIn):
    """Calls the original, and notes of every call its first argument and output at some places.

    Args:
        original: what it stands for.
        positions: of the tokens to keep; the second axis, or the first of two.
        n_tokens: of the text.
    """

    def __init__(self, original: nn.Module, positions: Sequence[int], n_tokens: int) -> None:
        super().__init__(original)
        self.__dict__.update(calls=[], positions=list(positions), n_tokens=n_tokens)
        self.__dict__["gives_more"] = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original."""
        output = self.original(*args, **kwargs)
        given = args[0] if args else next(iter(kwargs.values()))
        self.__dict__["gives_more"] = isinstance(output, tuple)
        self.calls.append((self._at(given), self._at(_first(output))))
        return output

    def _at(self, tensor: Any) -> Tensor | None:
        """(position, ...); None for what has no axis of tokens."""
        if not isinstance(tensor, Tensor):
            return None
        if tensor.ndim > 2 and len(tensor) == 1:
            tensor = tensor[0]
        return tensor[self.positions] if len(tensor) == self.n_tokens else None


@dataclass(frozen=True)
class FrozenNorm:
    """A norm as the linear map that it was in one run: y = factor * (x - its mean, if centred) + b.

    Args:
        factor: gain over the scale of this run, (position, ...).
        bias: or None.
        centred: whether the mean over the last axis is taken off first (LayerNorm).
    """

    factor: Float[Tensor, "position *rest"]
    bias: Float[Tensor, " d"] | None
    centred: bool

    def linear(self, x: Float[Tensor, "row position *rest"]) -> Float[Tensor, "row position *rest"]:
        """What it makes of parts of its input; the bias is a part of its own."""
        return self.factor * (x - x.mean(-1, keepdim=True) if self.centred else x)


def frozen(
    module: nn.Module, x: Float[Tensor, "position *rest"], y: Float[Tensor, "position *rest"]
) -> FrozenNorm | None:
    """The linear map that a norm was between x and y; None where it was none that is known.

    Known are LayerNorm, with or without gain and bias, and RMSNorm, whose gain is its weight or 1
    more than that (Gemma). Which of them it was is read off x and y. Some families compute RMSNorm
    in float32 whatever they run in: the factor is then the quotient y / x, number by number.

    Args:
        module: the norm.
        x: what it was given.
        y: what it gave.
    """
    given = (getattr(module, name, None) for name in ("weight", "bias"))
    gain, bias = (None if one is None else one.detach() for one in given)
    shifted = y if bias is None else y - bias
    gains = [1.0] if gain is None else [gain, 1 + gain]
    allowed = rounding(y.dtype) * float(y.abs().max())
    for centred in (True, False):
        base = x - x.mean(-1, keepdim=True) if centred else x
        for one in gains:
            shape = base * one
            square = (shape * shape).sum(-1, keepdim=True)
            tiny = torch.finfo(y.dtype).tiny
            scale = (shifted * shape).sum(-1, keepdim=True) / square.clamp_min(tiny)
            if not float((scale * shape - shifted).abs().max()) <= allowed:
                continue
            factor = scale * one * torch.ones_like(x)
            if not centred:
                factor = torch.where(x != 0, shifted / x, factor)
            return FrozenNorm(factor, bias, centred)
    return None


class Written(StandIn):
    """Gives what was written in a run: every component in its own row, nothing in the others.

    Args:
        original: an embedding, a projection out of attention, or an MLP; it is not called.
        calls: for each call in turn, what it writes by the components' names, (position, d).
        row: of each name; what has none is left out.
        n_rows: of the pass.
        gives_more: the original returns a tuple, whose first member this is.
    """

    def __init__(
        self,
        original: nn.Module,
        calls: Sequence[Mapping[str, Tensor]],
        row: Mapping[str, int],
        n_rows: int,
        gives_more: bool = False,
    ) -> None:
        super().__init__(original)
        self.__dict__.update(calls=iter(calls), row=row, n_rows=n_rows, gives_more=gives_more)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What was written; what the original would be given plays no part."""
        written = next(self.calls)
        like = next(iter(written.values()))
        found = like.new_zeros(self.n_rows, *like.shape)
        for name, value in written.items():
            if name in self.row:
                found[self.row[name]] += value
        if not isinstance(self.original, nn.Embedding) and args[0].ndim == 2:
            found = found.flatten(0, 1)  # OPT takes the tokens of all rows together
        return (found, None) if self.gives_more else found


class Given(StandIn):
    """Gives the same at every call.

    Args:
        original: what it stands for; it is not called.
        value: what to give.
        gives_more: the original returns a tuple, whose first member this is.
    """

    def __init__(self, original: nn.Module, value: Tensor, gives_more: bool) -> None:
        super().__init__(original)
        self.__dict__["value"] = (value, None) if gives_more else value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """That."""
        return self.value


class NormRows(StandIn):
    """A norm as it was in a run, on every row; its bias is in the row of its own.

    Args:
        original: the norm; it is not called.
        calls: for each call in turn, what it was.
        writes: for each call, the name of its bias.
        row: of each name; a bias that has none is left out.
    """

    def __init__(
        self,
        original: nn.Module,
        calls: Sequence[FrozenNorm],
        writes: Sequence[str],
        row: Mapping[str, int],
    ) -> None:
        super().__init__(original)
        self.__dict__.update(calls=zip(calls, writes, strict=False), row=row)

    def forward(self, x: Tensor) -> Tensor:
        """The rows, in the shape that they came in."""
        norm, name = next(self.calls)
        rows = norm.linear(x.reshape(-1, *norm.factor.shape))
        if norm.bias is not None and name in self.row:
            rows[self.row[name]] += norm.bias
        return rows.reshape(x.shape)


class ProjectionRows(StandIn):
    """A projection on every row; its bias is in the row of its own.

    Args:
        original: the projection; its weights are used.
        name: of its bias.
        row: of each name; a bias that has none is left out.
        n_rows: of the pass.
    """

    def __init__(self, original: nn.Module, name: str, row: Mapping[str, int], n_rows: int) -> None:
        super().__init__(original)
        self.__dict__.update(name=name, row=row, n_rows=n_rows)

    def forward(self, x: Tensor) -> Tensor:
        """The rows times the weights."""
        weight = self.original.weight
        y = x @ (weight if isinstance(self.original, Conv1D) else weight.T)
        if self.original.bias is not None and self.name in self.row:
            y.view(self.n_rows, -1, y.shape[-1])[self.row[self.name]] += self.original.bias
        return y


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output
