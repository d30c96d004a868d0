"""Linear maps that one run makes of parts of a network: norms with their scale kept, and others."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.engine.run import rounding
from mha_viz.errors import NotKeptError


@dataclass(frozen=True, eq=False)
class LinearNorm:
    """A norm as a linear map: y = factor * (x - its mean, if centred) + bias.

    In a run the factor is the gain over the scale of each token. The scale turns no direction:
    by the weights alone the factor is the gain.
    """

    module: nn.Module
    gain: Float[Tensor, " d"] | float
    factor: Float[Tensor, "*shape d"]  # in the shape of its input
    bias: Float[Tensor, " d"] | None
    centred: bool  # whether the mean over the last axis is taken off first (LayerNorm)

    @classmethod
    def of_run(
        cls, module: nn.Module, x: Float[Tensor, "*shape d"], y: Float[Tensor, "*shape d"]
    ) -> "LinearNorm | None":
        """Return the linear map that a norm was between x and y; None where it is of another kind.

        Covered are LayerNorm, with or without gain and bias, and RMSNorm, whose gain is its weight
        or 1 more than that (Gemma). Which of them it was is read off x and y. Some families compute
        RMSNorm in float32 whatever they run in: the factor is then the quotient y / x, number by
        number.
        """
        parameters = (getattr(module, name, None) for name in ("weight", "bias"))
        weight, bias = (
            None if parameter is None else parameter.detach() for parameter in parameters
        )
        shifted = y if bias is None else y - bias
        gains = [1.0] if weight is None else [weight, 1 + weight]
        allowed = rounding(y.dtype) * float(y.abs().max())
        for centred in (True, False):
            base = x - x.mean(-1, keepdim=True) if centred else x
            for gain in gains:
                shape = base * gain
                square = (shape * shape).sum(-1, keepdim=True)
                tiny = torch.finfo(y.dtype).tiny
                scale = (shifted * shape).sum(-1, keepdim=True) / square.clamp_min(tiny)
                if not float((scale * shape - shifted).abs().max()) <= allowed:
                    continue
                factor = scale * gain * torch.ones_like(x)
                if not centred and bias is None:
                    factor = torch.where(x != 0, shifted / x, factor)
                return cls(module, gain, factor, bias, centred)
        return None

    @classmethod
    def of_weights(cls, module: nn.Module, dtype: torch.dtype) -> "LinearNorm":
        """Return a norm without scale and bias, by its weights; NotKeptError for another kind.

        What the weights mean is read off the norm's own output for one vector.
        """
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 1:
            # cos, not a random draw: the same everywhere, far from centred, and no two alike
            count = torch.arange(1.0, len(weight) + 1, dtype=dtype, device=weight.device)
            x = (1 + count.cos()).to(weight.dtype)
            with torch.inference_mode():
                norm = cls.of_run(module, x, module(x))
            if norm is not None and isinstance(norm.gain, Tensor):
                weight = weight.detach().to(dtype)
                gain = weight if torch.equal(norm.gain.to(dtype), weight) else 1 + weight
                return replace(norm, gain=gain, factor=gain, bias=None)
        raise NotKeptError(
            f"{type(module).__name__} is neither a LayerNorm nor an RMSNorm with a gain, as "
            "expected between two heads: what one reads of the other cannot be told by weights "
            "here."
        )

    def carry(self, x: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
        """Apply the norm to parts of its input; the bias is a part of its own."""
        return self.factor * (x - x.mean(-1, keepdim=True) if self.centred else x)

    def pull_back(self, y: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
        """Map a gradient by the norm's output to one by its input: `carry`, transposed."""
        y = self.factor * y
        return y - y.mean(-1, keepdim=True) if self.centred else y

    def at(self, rows: list[int]) -> "LinearNorm":
        """Return the norm at some tokens."""
        return replace(self, factor=self.factor[rows])


class LinearMap:
    """A linear map between two tensors that autograd has recorded, and its transpose."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        """Take an input of the map and its output, under gradients."""
        self._x, self._y = x, y
        self._weights = torch.zeros_like(y, requires_grad=True)
        with torch.enable_grad():
            (self._pulled,) = torch.autograd.grad(y, x, self._weights, create_graph=True)

    @property
    def output_shape(self) -> torch.Size:
        """The shape of the output."""
        return self._y.shape

    def carry(self, x: Float[Tensor, "..."]) -> Tensor:
        """Apply the map; the result has the shape of its output."""
        x = x.to(self._x.dtype).reshape(self._x.shape)
        (y,) = torch.autograd.grad(self._pulled, self._weights, x, retain_graph=True)
        return y

    def pull_back(self, y: Float[Tensor, "..."]) -> Tensor:
        """Apply its transpose; the result has the shape of its input."""
        y = y.to(self._y.dtype).reshape(self._y.shape)
        (x,) = torch.autograd.grad(self._y, self._x, y, retain_graph=True)
        return x
