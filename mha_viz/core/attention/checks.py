"""Checks of the inputs of attention and of metrics, with errors that people understand."""

import math
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from mha_viz.errors import ArgumentError, DTypeError, ShapeError

Number = float | int
Array = Tensor | np.ndarray

T = TypeVar("T")
if TYPE_CHECKING:
    Given = Annotated[T, "checked by hand"]
else:

    class Given:
        """`Given[Float[Tensor, "query key"]]`: an argument that the function checks by itself.

        The shape is for the reader. Under test every annotation is checked at each call; this one
        lets anything pass, so that people get our error and not the type checker's.
        """

        def __class_getitem__(cls, shape: Any) -> Any:
            """Annotate any object with the shape for the reader."""
            return Annotated[object, shape]


def as_tensor(name: str, value: Any) -> Tensor:
    """Return a tensor, an array, or a list of either of one shape as one tensor.

    >>> as_tensor("pattern", [np.zeros((2, 3)), np.ones((2, 3))]).shape
    torch.Size([2, 2, 3])
    """
    if isinstance(value, Tensor):
        return value
    try:
        if isinstance(value, list | tuple):
            return torch.stack([as_tensor(name, part) for part in value])
        # torch takes no array that may not be written to, or that runs backwards
        return torch.from_numpy(np.require(value, requirements=["C", "W"]))
    except (TypeError, ValueError, RuntimeError) as error:
        kind = getattr(value, "dtype", type(value).__name__)
        raise DTypeError(f"{name} must be a tensor or an array of numbers, got {kind}") from error


def shape_of(tensor: Array) -> tuple[int, ...]:
    """Return the shape as a plain tuple, to compare and to print."""
    return tuple(tensor.shape)


def check_tensors(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Refuse inputs of `attention` that do not fit each other; arguments as there."""
    tensors = {"query": query, "key": key, "value": value}
    check_alike(tensors)
    for name, tensor in tensors.items():
        if tensor.ndim < 3 or 0 in tensor.shape[-2:]:
            expected = "(*batch, head, token, width) with a token and a width at least"
            raise ShapeError(f"{name} must be {expected}, got {shape_of(tensor)}")
    fault = None
    if not query.shape[:-3] == key.shape[:-3] == value.shape[:-3]:
        fault = "query, key and value must have the same batch axes"
    elif query.shape[-1] != key.shape[-1]:
        fault = "query and key must have the same width d_head"
    elif key.shape[-3:-1] != value.shape[-3:-1]:
        fault = "key and value must have the same heads and tokens"
    if fault:
        got = ", ".join(f"{name} {shape_of(tensor)}" for name, tensor in tensors.items())
        raise ShapeError(f"{fault}, got {got}")
    check_groups(query.shape[-3], key.shape[-3])
    if mask is not None:
        check_extra("mask", mask, (*query.shape[:-1], key.shape[-2]), query.device)


def check_out(out: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Return the tensor that takes a pattern, once its size, layout and dtype are checked."""
    expected = (*query.shape[:-1], key.shape[-2])
    if shape_of(out) != expected or not out.is_contiguous():
        raise ShapeError(f"out must be contiguous {expected}, got {shape_of(out)}")
    check_alike({"query": query, "out": out})
    return out


def check_extra(name: str, extra: Tensor, target: tuple[int, ...], device: torch.device) -> None:
    """Check a mask or gates: the dtype, the device, and that it broadcasts to `target`."""
    if not extra.is_floating_point() and (name, extra.dtype) != ("mask", torch.bool):
        kinds = "bool (True = may attend) or floating point" if name == "mask" else "floating point"
        raise DTypeError(f"{name} must be {kinds}, got {extra.dtype}")
    if extra.device != device:
        raise ArgumentError(f"{name} must be on the query's device {device}, got {extra.device}")
    pairs = zip(reversed(extra.shape), reversed(target), strict=False)
    if extra.ndim > len(target) or any(have not in (1, want) for have, want in pairs):
        raise ShapeError(f"{name} must broadcast to {target}, got {shape_of(extra)}")


def check_alike(tensors: dict[str, Tensor]) -> None:
    """Check that all are floating point, of one dtype, on one device."""
    (first_name, first), *_ = tensors.items()
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise DTypeError(f"{name} must be floating point, got {tensor.dtype}")
        if tensor.dtype != first.dtype:
            raise DTypeError(f"{name} must be {first.dtype} as {first_name} is, got {tensor.dtype}")
        if tensor.device != first.device:
            requirement = f"on {first.device} as {first_name} is"
            raise ArgumentError(f"{name} must be {requirement}, got {tensor.device}")


def check_groups(n_heads: int, n_kv_heads: int) -> None:
    """Refuse a number of key heads that does not divide the number of query heads."""
    if n_heads < 1 or n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ShapeError(f"n_kv_heads must divide n_heads, got {n_kv_heads} and {n_heads}")


def check_numbers(scale: Number | None, softcap: Number | None) -> None:
    """Refuse numbers that attention cannot be computed with; arguments as in `attention`."""
    if scale is not None and not math.isfinite(scale):
        raise ArgumentError(f"scale must be finite, got {scale}")
    if softcap is not None and not (softcap > 0 and math.isfinite(softcap)):
        raise ArgumentError(f"softcap must be a positive number, got {softcap}")


def check_dropout(dropout: Number) -> None:
    """Refuse what is no probability."""
    if not 0 <= dropout <= 1:
        raise ArgumentError(f"dropout must be in [0, 1], got {dropout}")
