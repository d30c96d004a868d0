"""What can be wrong with the inputs of attention, said in our words."""

import math

import torch
from jaxtyping import Shaped
from torch import Tensor

from mha_viz.errors import ArgumentError, DTypeError, ShapeError

Number = float | int
Anything = Shaped[Tensor, "..."]  # a tensor whose shape and dtype we check ourselves, in our words


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def check_tensors(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, gates: Tensor | None
) -> None:
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
        _check_extra("mask", mask, (*query.shape[:-1], key.shape[-2]), query.device)
    if gates is not None:
        _check_extra("gates", gates, shape_of(query)[:-2], query.device)


def check_out(out: Tensor, query: Tensor, key: Tensor) -> None:
    """The place for a pattern: its size, contiguous, of the inputs' dtype and device."""
    expected = (*query.shape[:-1], key.shape[-2])
    if shape_of(out) != expected or not out.is_contiguous():
        raise ShapeError(f"out must be contiguous {expected}, got {shape_of(out)}")
    check_alike({"query": query, "out": out})


def _check_extra(name: str, extra: Tensor, target: tuple[int, ...], device: torch.device) -> None:
    """A mask or gates: the right kind, on the device, and stretching to `target`."""
    if not extra.is_floating_point() and (name, extra.dtype) != ("mask", torch.bool):
        kinds = "bool (True = may attend) or floating point" if name == "mask" else "floating point"
        raise DTypeError(f"{name} must be {kinds}, got {extra.dtype}")
    if extra.device != device:
        raise ArgumentError(f"{name} must be on the query's device {device}, got {extra.device}")
    pairs = zip(reversed(extra.shape), reversed(target), strict=False)
    if extra.ndim > len(target) or any(have not in (1, want) for have, want in pairs):
        raise ShapeError(f"{name} must broadcast to {target}, got {shape_of(extra)}")


def check_alike(tensors: dict[str, Tensor]) -> None:
    """All floating point, of one dtype, on one device."""
    (first_name, first), *_ = tensors.items()
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise DTypeError(f"{name} must be floating point, got {tensor.dtype}")
        if tensor.dtype != first.dtype:
            raise DTypeError(f"{name} must be {first.dtype} as {first_name} is, got {tensor.dtype}")
        if tensor.device != first.device:
            place = f"on {first.device} as {first_name} is"
            raise ArgumentError(f"{name} must be {place}, got {tensor.device}")


def check_groups(n_heads: int, n_kv_heads: int) -> None:
    if n_heads < 1 or n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ShapeError(f"n_kv_heads must divide n_heads, got {n_kv_heads} and {n_heads}")


def check_numbers(scale: Number | None, softcap: Number | None, dropout: Number) -> None:
    if scale is not None and not math.isfinite(scale):
        raise ArgumentError(f"scale must be finite, got {scale}")
    if softcap is not None and not (softcap > 0 and math.isfinite(softcap)):
        raise ArgumentError(f"softcap must be a positive number, got {softcap}")
    if not 0 <= dropout <= 1:
        raise ArgumentError(f"dropout must be in [0, 1], got {dropout}")
