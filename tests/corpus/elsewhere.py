"""Tensors that are said to lie on a graphics card, which tell what is fetched of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

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
        target = _target(args) if function is Tensor.to else None
        if function in FETCHING or target not in (None, cls.kind):
            cls.fetched.append(args[0].numel())
            with torch._C.DisableTorchFunctionSubclass():
                return function(args[0].as_subclass(Tensor), *args[1:], **(kwargs or {}))
        if target is not None:
            args = tuple(a for a in args if not isinstance(a, torch.device | str))
        elif function is not Tensor.to and any(map(_is_here, _tensors(args))):
            raise AssertionError(f"{function} of tensors on two devices")
        found = super().__torch_function__(function, types, args, kwargs)
        if isinstance(found, cls) and cls.kind == "mps" and found.dtype == torch.float64:
            raise AssertionError(f"{function} makes float64, which this device has not")
        return found


class There(TorchFunctionMode):
    """Within it a device is there: tensors can be made on it and taken to it.

    Args:
        kind: "cuda" or "mps".

    Attributes:
        fetched: how many numbers were fetched from it, each time.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.fetched = kind, list[int]()
        attributes = {"kind": kind, "fetched": self.fetched}
        self._tensors = type("Elsewhere", (Elsewhere,), attributes)

    def bring(self, tensor: Tensor) -> Tensor:
        """A tensor, taken there."""
        return tensor.as_subclass(self._tensors)

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        made = str(kwargs.get("device")) == self.kind
        if made:
            kwargs["device"] = "cpu"
        elif function is Tensor.to and type(args[0]) is Tensor and _target(args) == self.kind:
            return self.bring(args[0])
        found = function(*args, **kwargs)
        return self.bring(found) if made else found


def _target(args: Any) -> str | None:
    """The kind of device that `Tensor.to` is told."""
    return next((torch.device(a).type for a in args if isinstance(a, torch.device | str)), None)


def _is_here(tensor: Tensor) -> bool:
    return type(tensor) is Tensor and tensor.ndim > 0


def _tensors(args: Any) -> Iterator[Tensor]:
    for one in args:
        if isinstance(one, tuple | list):
            yield from _tensors(one)
        elif isinstance(one, Tensor):
            yield one
