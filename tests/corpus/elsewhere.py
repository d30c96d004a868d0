"""Tensors that are said to lie on a graphics card, which tell what is fetched of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FETCHING = (
    *(Tensor.cpu, Tensor.numpy, Tensor.tolist, Tensor.item),
    *(Tensor.__bool__, Tensor.__int__, Tensor.__float__),
)


class Elsewhere(Tensor):
    """A tensor of the processor that only says that it is on another device.

    What is made of it is there, too. As there, it cannot be added to what is not, and "mps" has no
    float64.
    """

    kind: str
    fetched: list[int]  # how many numbers, each time
    device = property(lambda self: torch.device(self.kind))  # type: ignore[assignment]

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is Tensor.to:
            target = next((a for a in args[1:] if isinstance(a, torch.device | str)), None)
            if target is not None and torch.device(target).type == cls.kind:
                args = tuple(a for a in args if a is not target)
            elif target is not None:
                return cls._fetched(Tensor.to, args, kwargs)
        elif function in FETCHING:
            return cls._fetched(function, args, kwargs)
        elif any(type(a) is Tensor and a.ndim for a in args):
            raise AssertionError(f"{function} of tensors on two devices")
        found = super().__torch_function__(function, types, args, kwargs)
        if isinstance(found, cls) and cls.kind == "mps" and found.dtype == torch.float64:
            raise AssertionError(f"{function} makes float64, which this device has not")
        return found

    @classmethod
    def _fetched(cls, function: Any, args: Any, kwargs: Any) -> Any:
        cls.fetched.append(args[0].numel())
        with torch._C.DisableTorchFunctionSubclass():
            return function(args[0].as_subclass(Tensor), *args[1:], **(kwargs or {}))


def on(kind: str) -> type[Elsewhere]:
    """Such tensors, of which nothing has been fetched yet: `tensor.as_subclass(on("cuda"))`."""
    return type("Elsewhere", (Elsewhere,), {"kind": kind, "fetched": []})
