"""What every metric asks of its inputs, and the precision it adds up in.

Metrics take tensors and numpy's arrays alike, and return tensors.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from mha_viz.core.checks import Array, Given, as_tensor
from mha_viz.errors import ArgumentError, DTypeError, ShapeError

Pattern = Given[Float[Array, "layer head query key"]]
HeadVectors = Given[Float[Array, "layer head query d_head"]]
Allowed = Given[Bool[Array, "#layer query key"] | Bool[Array, "query key"]]
OutputMatrices = Given[Sequence[Float[Array, "head d_head d_model"]]]  # one for each layer


def check_pattern(pattern: Pattern) -> tuple[Float[Tensor, "layer head query key"], torch.dtype]:
    """Refuse what is no pattern.

    Args:
        pattern: (layer, head, query, key), or a list of layers.

    Returns:
        The pattern as a tensor, and the dtype to add up in: float32, or float64 if it is that.

    Raises:
        ShapeError, DTypeError: with what was expected and what came.

    >>> check_pattern(torch.ones(1, 1, 1, 1, dtype=torch.float16))
    (tensor([[[[1.]]]], dtype=torch.float16), torch.float32)
    """
    return _four_axes("pattern", "query, key", pattern)


def check_z(z: HeadVectors) -> tuple[Float[Tensor, "layer head query d_head"], torch.dtype]:
    """Refuse what is no z; as `check_pattern`.

    Args:
        z: (layer, head, query, d_head), or a list of layers.

    Returns:
        z as a tensor, and the dtype to add up in: float32, or float64 if it is that.

    Raises:
        ShapeError, DTypeError: with what was expected and what came.
    """
    return _four_axes("z", "query, d_head", z)


def _four_axes(name: str, last: str, given: Any) -> tuple[Tensor, torch.dtype]:
    tensor = as_tensor(name, given)
    if tensor.ndim != 4 or 0 in tensor.shape:
        expected = f"{name} must be (layer, head, {last}) with none empty"
        raise ShapeError(f"{expected}, got {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        raise DTypeError(f"{name} must be floating point, got {tensor.dtype}")
    return tensor, torch.promote_types(tensor.dtype, torch.float32)


def check_self_attention(
    pattern: Pattern, at_least: int = 1
) -> tuple[Float[Tensor, "layer head query query"], torch.dtype]:
    """As `check_pattern`, and queries and keys must be the same tokens.

    Args:
        pattern: (layer, head, query, key), with as many keys as queries.
        at_least: how many tokens there must be.

    Returns:
        As `check_pattern`.

    Raises:
        ShapeError, DTypeError: if it is no pattern.
        ArgumentError: cross-attention, or too few tokens.

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
    name: str, given: Given[Shaped[Array, "key"]], pattern: Tensor
) -> Shaped[Tensor, "key"]:
    """Refuse anything but one entry per key.

    Args:
        name: what the caller calls it, for the error.
        given: (key,), of any kind.
        pattern: (layer, head, query, key), checked already.

    Returns:
        The entries as a tensor.

    Raises:
        ShapeError, DTypeError: with what was expected and what came.

    >>> check_per_key("ids", torch.tensor([5, 6]), torch.ones(1, 1, 2, 2))
    tensor([5, 6])
    """
    entries, n_key = as_tensor(name, given), pattern.shape[-1]
    if entries.shape != (n_key,):
        got = tuple(entries.shape)
        raise ShapeError(f"{name} must be ({n_key},), one entry per key, got {got}")
    return entries


def allowed_keys(
    pattern: Tensor, causal: bool = False, allowed: Allowed | None = None
) -> Bool[Tensor, "#layer query key"]:
    """Which keys each query may see, True = may attend.

    Args:
        pattern: (layer, head, query, key), checked already.
        causal: query q may see keys 0 to q only, counted from the first of both, as attention does.
        allowed: bool (query, key), or (layer, query, key) where layers differ; takes the place of
            `causal`.

    Returns:
        (1, query, key) where all layers see the same, else (layer, query, key).

    Raises:
        ShapeError, DTypeError: if `allowed` does not fit the pattern.

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
    """The floats that small sums are made in: float64, but of Apple's GPUs, which have float32.

    Args:
        device: where they are made.

    >>> widest(torch.device("cpu")), widest(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type == "mps" else torch.float64


def with_float64(tensor: Tensor) -> Tensor:
    """As it is, on the processor if its device has no float64.

    Args:
        tensor: to be summed up in float64, whatever that takes.
    """
    return tensor if widest(tensor.device) == torch.float64 else tensor.cpu()


def exact(tensor: Tensor) -> Tensor:
    """In the `widest` floats of its device.

    Args:
        tensor: of any numbers.
    """
    return tensor.to(widest(tensor.device))
