"""Stand-ins that make a network linear: norms keep one run's scale, writers give its outputs."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.engine.layer_activations import ModuleProxy
from mha_viz.engine.projections import in_out
from mha_viz.engine.run import rounding


class Recorder(ModuleProxy):
    """A stand-in that records the first argument and output of every call at some positions."""

    gives_more = False  # than one tensor

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, and record."""
        output = self.original(*args, **kwargs)
        given = args[0] if args else next(iter(kwargs.values()))
        self.__dict__["gives_more"] = isinstance(output, tuple)
        first = output[0] if isinstance(output, tuple) else output
        self.calls.append((self._at(given, given), self._at(first, given)))
        return output

    def _at(self, tensor: Any, given: Any) -> Tensor | None:
        """Select the positions on the tokens' axis; None for a tensor without one."""
        if not isinstance(tensor, Tensor):
            return None
        # Memory tells axes apart: what has the input's shape has its axes, whatever its memory.
        like = given if isinstance(given, Tensor) and given.shape == tensor.shape else tensor
        if tensor.ndim > 2 and len(tensor) == 1:
            tensor, like = tensor[0], like[0]
        axes = [axis for axis in range(tensor.ndim - 1) if tensor.shape[axis] == self.n_tokens]
        if not axes:
            return None
        # With as many heads as tokens both axes fit. Projections lay out token after token.
        axis = max(axes, key=like.stride)
        return tensor.index_select(axis, torch.tensor(list(self.positions), device=tensor.device))


class PositionRecorder(Recorder):
    """A stand-in for a projection that computes at some positions alone, and records."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Call the original at the positions."""
        given = hidden[..., list(self.positions), :]
        output: Tensor = self.original(given)
        self.calls.append((given.flatten(0, -2), output.flatten(0, -2)))
        return output


@dataclass(frozen=True)
class FrozenNorm:
    """A norm as a linear map with one run's scale: y = factor * (x - its mean, if centred) + b."""

    factor: Float[Tensor, "*shape d"]  # gain over the scale of this run, in the shape of its input
    bias: Float[Tensor, " d"] | None  # or None
    centred: bool  # whether the mean over the last axis is taken off first (LayerNorm)

    def linear(self, x: Float[Tensor, "row *shape d"]) -> Float[Tensor, "row *shape d"]:
        """Apply the norm to parts of its input; the bias is a part of its own."""
        return self.factor * (x - x.mean(-1, keepdim=True) if self.centred else x)

    def transposed(self, y: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """Map a gradient by what the norm gives to one by what it is given."""
        y = self.factor * y
        return y - y.mean(-1, keepdim=True) if self.centred else y


class LinearMap:
    """A linear map between two tensors that autograd knows, and its transpose."""

    def __init__(self, given: Tensor, made: Tensor) -> None:
        """Take what the map was given and what it made of it, under gradients."""
        self._given, self._made = given, made
        self._weights = torch.zeros_like(made, requires_grad=True)
        with torch.enable_grad():
            (self._pulled,) = torch.autograd.grad(made, given, self._weights, create_graph=True)

    @property
    def made(self) -> torch.Size:
        """The shape of what the map makes."""
        return self._made.shape

    def __call__(self, x: Float[Tensor, "..."]) -> Tensor:
        """Apply the map; the result has the shape of what it made."""
        given = x.to(self._given.dtype).reshape(self._given.shape)
        (found,) = torch.autograd.grad(self._pulled, self._weights, given, retain_graph=True)
        return found

    def transposed(self, y: Float[Tensor, "..."]) -> Tensor:
        """Apply its transpose; the result has the shape of what it was given."""
        made = y.to(self._made.dtype).reshape(self._made.shape)
        (found,) = torch.autograd.grad(self._made, self._given, made, retain_graph=True)
        return found


def frozen(
    module: nn.Module, x: Float[Tensor, "*shape d"], y: Float[Tensor, "*shape d"]
) -> FrozenNorm | None:
    """Return the linear map that a norm was between x and y; None where it is of no known kind.

    Known are LayerNorm, with or without gain and bias, and RMSNorm, whose gain is its weight or 1
    more than that (Gemma). Which of them it was is read off x and y. Some families compute RMSNorm
    in float32 whatever they run in: the factor is then the quotient y / x, number by number.
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
            if not centred and bias is None:
                factor = torch.where(x != 0, shifted / x, factor)
            return FrozenNorm(factor, bias, centred)
    return None


class ComponentRows(ModuleProxy):
    """A stand-in that gives each component's recorded output in its own row, if it has one.

    `calls` has for each call what it writes by the components' names, (position, d). With
    `gives_more` the original returns a tuple, whose first member this is.
    """

    gives_more = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what was recorded; the input is ignored."""
        written = next(self.calls)
        like = next(iter(written.values()))
        found = like.new_zeros(self.n_rows, *like.shape)
        for name, value in written.items():
            if name in self.row:
                found[self.row[name]] += value
        if not isinstance(self.original, nn.Embedding) and args[0].ndim == 2:
            found = found.flatten(0, 1)  # OPT takes the tokens of all rows together
        return (found, None) if self.gives_more else found


class NormRows(ModuleProxy):
    """A norm as it was at each call of a run, on every row; its bias has a row of its own."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the frozen norm to the rows, in the shape that they came in."""
        norm, name = next(self.calls)
        rows = norm.linear(x.reshape(-1, *norm.factor.shape))
        if norm.bias is not None and name in self.row:
            rows[self.row[name]] += norm.bias
        return rows.reshape(x.shape)


class ProjectionRows(ModuleProxy):
    """A projection on every row; its bias, called `name`, has a row of its own.

    Where nobody reads what it gives (`unread`) the rows are not multiplied: of what a layer's
    attention reads nothing reaches the stream, as its heads write what they wrote.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Multiply the rows by the weights."""
        W = in_out(self.original)
        y = x.new_zeros(*x.shape[:-1], W.shape[1]) if self.unread else x @ W
        if self.original.bias is not None and self.name in self.row:
            y.view(self.n_rows, -1, y.shape[-1])[self.row[self.name]] += self.original.bias
        return y
