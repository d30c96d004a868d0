"""Checks of the inputs of metrics, and the precision that they add up in.

Metrics take tensors and numpy's arrays alike, and return tensors. In all of them `pattern` is
(layer, head, query, key); `z` is (layer, head, query, d_head), pattern times values; `W_O` has each
layer's output weights (head, d_head, d_model); `is_special` is bool (key,). What has another shape
or kind is refused with ShapeError or DTypeError; some metrics raise ArgumentError, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor
from mha_viz.errors import ArgumentError, DTypeError, ShapeError

Pattern = Given[Float[Array, "layer head query key"]]
HeadVectors = Given[Float[Array, "layer head query d_head"]]
Allowed = Given[Bool[Array, "#layer query key"] | Bool[Array, "query key"]]
OutputMatrices = Given[Sequence[Float[Array, "head d_head d_model"]]]  # one for each layer


@dataclass(frozen=True, eq=False)
class TokenFacts:
    """The facts about a text's tokens that metrics of a pattern are made of."""

    ids: Given[Int[Array, "key"]] | None = None  # token ids; None: unknown
    is_special: Given[Bool[Array, "key"]] | None = None  # None: no token is special
    causal: bool = False  # query q sees keys 0 to q
    allowed: Allowed | None = None  # the keys that each query sees; takes the place of `causal`
    period: int | None = None  # tokens in one copy, where the text is a sequence repeated once
    start: int = 0  # tokens before the first copy


NO_FACTS = TokenFacts()


def check_pattern(pattern: Pattern) -> tuple[Float[Tensor, "layer head query key"], torch.dtype]:
    """Check a pattern, and return it as a tensor with the dtype to add up in.

    >>> check_pattern(torch.ones(1, 1, 1, 1, dtype=torch.float16))
    (tensor([[[[1.]]]], dtype=torch.float16), torch.float32)
    """
    return _four_axes("pattern", "query, key", pattern)


def check_z(z: HeadVectors) -> tuple[Float[Tensor, "layer head query d_head"], torch.dtype]:
    """Check z, and return it as a tensor with the dtype to add up in."""
    return _four_axes("z", "query, d_head", z)


def _four_axes(name: str, last: str, array: Any) -> tuple[Tensor, torch.dtype]:
    tensor = as_tensor(name, array)
    if tensor.ndim != 4 or 0 in tensor.shape:
        expected = f"{name} must be (layer, head, {last}) with none empty"
        raise ShapeError(f"{expected}, got {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        raise DTypeError(f"{name} must be floating point, got {tensor.dtype}")
    return tensor, torch.promote_types(tensor.dtype, torch.float32)


def check_self_attention(
    pattern: Pattern, at_least: int = 1
) -> tuple[Float[Tensor, "layer head query query"], torch.dtype]:
    """Check a pattern as `check_pattern` does, and that queries and keys are the same tokens.

    >>> check_self_attention(torch.ones(1, 1, 2, 2), at_least=2)[1]
    torch.float32
    """
    pattern, wide = check_pattern(pattern)
    n_query, n_key = pattern.shape[-2:]
    if n_query != n_key:
        raise ArgumentError(
            "a position relative to the query needs self-attention (as many keys as queries), "
            f"got {n_query} queries and {n_key} keys"
        )
    if n_key < at_least:
        raise ArgumentError(f"this metric needs at least {at_least} tokens, got {n_key}")
    return pattern, wide


def check_per_key(
    name: str, array: Given[Shaped[Array, "key"]], pattern: Tensor
) -> Shaped[Tensor, "key"]:
    """Check that there is one entry per key, and return the entries as a tensor.

    >>> check_per_key("ids", torch.tensor([5, 6]), torch.ones(1, 1, 2, 2))
    tensor([5, 6])
    """
    entries, n_key = as_tensor(name, array), pattern.shape[-1]
    if entries.shape != (n_key,):
        got = tuple(entries.shape)
        raise ShapeError(f"{name} must be ({n_key},), one entry per key, got {got}")
    return entries


def allowed_keys(
    pattern: Tensor, causal: bool = False, allowed: Allowed | None = None
) -> Bool[Tensor, "#layer query key"]:
    """Return which keys each query may see, True = may attend.

    `pattern` is checked already. Where `causal`, query q may see keys 0 to q only, counted from the
    first of both, as attention does; `allowed`, bool (query, key), or (layer, query, key) where
    layers differ, takes its place. Returns (1, query, key) where all layers see the same, else
    (layer, query, key).

    >>> allowed_keys(torch.ones(1, 1, 2, 2), causal=True)[0].int().tolist()
    [[1, 0], [1, 1]]
    """
    layers, _, n_query, n_key = pattern.shape
    if allowed is None:
        every = torch.ones(1, n_query, n_key, dtype=torch.bool, device=pattern.device)
        return every.tril() if causal else every
    allowed = as_tensor("allowed", allowed)
    if allowed.dtype != torch.bool:
        raise DTypeError(f"allowed must be bool (True = may attend), got {allowed.dtype}")
    of_layers = allowed if allowed.ndim == 3 else allowed[None]
    if of_layers.shape not in {(1, n_query, n_key), (layers, n_query, n_key)}:
        raise ShapeError(
            f"allowed must be {(n_query, n_key)}, or {(layers, n_query, n_key)} where layers "
            f"differ, got {tuple(allowed.shape)}"
        )
    return of_layers


def widest(device: torch.device) -> torch.dtype:
    """Return the floats that small sums are made in: float64, but on Apple's GPUs float32.

    >>> widest(torch.device("cpu")), widest(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type == "mps" else torch.float64


def with_float64(tensor: Tensor) -> Tensor:
    """Return the tensor on a device that has float64."""
    return tensor if widest(tensor.device) == torch.float64 else tensor.cpu()


def exact(tensor: Tensor) -> Tensor:
    """Convert to the `widest` floats of its device."""
    return tensor.to(widest(tensor.device))
