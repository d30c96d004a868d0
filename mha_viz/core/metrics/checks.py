"""What every metric asks of its inputs, and the precision it adds up in."""

import torch

from mha_viz.core.checks import Anything
from mha_viz.errors import ArgumentError, DTypeError, ShapeError


def check_pattern(pattern: Anything) -> torch.dtype:
    """Refuse what is no pattern; return the dtype to add up in: float32, or float64 if it is that.

    >>> check_pattern(torch.ones(1, 1, 2, 2, dtype=torch.float16))
    torch.float32
    """
    if pattern.ndim != 4 or 0 in pattern.shape:
        got = tuple(pattern.shape)
        raise ShapeError(f"pattern must be (layer, head, query, key) with none empty, got {got}")
    if not pattern.is_floating_point():
        raise DTypeError(f"pattern must be floating point, got {pattern.dtype}")
    return torch.promote_types(pattern.dtype, torch.float32)


def check_self_attention(pattern: Anything, at_least: int = 1) -> torch.dtype:
    """As `check_pattern`, and queries and keys must be the same tokens, `at_least` so many.

    >>> check_self_attention(torch.ones(1, 1, 2, 2), at_least=2)
    torch.float32
    """
    wide = check_pattern(pattern)
    n_query, n_key = pattern.shape[-2:]
    if n_query != n_key:
        raise ArgumentError(
            "a position relative to the query needs self-attention (as many keys as queries), "
            f"got {n_query} queries and {n_key} keys"
        )
    if n_key < at_least:
        raise ArgumentError(f"this metric needs at least {at_least} tokens, got {n_key}")
    return wide


def check_per_key(name: str, given: Anything, pattern: Anything) -> None:
    """Refuse anything but one entry per key.

    >>> check_per_key("ids", torch.tensor([5, 6]), torch.ones(1, 1, 2, 2))
    """
    n_key = pattern.shape[-1]
    if given.shape != (n_key,):
        raise ShapeError(f"{name} must be ({n_key},), one entry per key, got {tuple(given.shape)}")
