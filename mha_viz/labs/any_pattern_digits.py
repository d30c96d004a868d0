"""Lab 7's patterns as they are painted: a row of digits for each query, from 0 to 9."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.errors import ArgumentError

SIZES = tuple(range(4, 13))
PRESETS = ("diagonal", "previous", "next", "first", "block", "checkerboard", "near", "random")


def preset(name: str, n: int, seed: int = 0) -> tuple[str, ...]:
    """A pattern as rows of digits, from 0 for no weight to 9 for much.

    Args:
        name: one of PRESETS.
        n: tokens, 4 to 12.
        seed: of "random", whose digits are 1 to 9.

    Raises:
        ArgumentError: another name or size.

    >>> preset("previous", 4)
    ('9000', '9000', '0900', '0090')
    """
    if name not in PRESETS or n not in SIZES:
        raise ArgumentError(f"there is no pattern {name!r} of {n} tokens.")
    q, k = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    random = torch.Generator().manual_seed(seed)
    where = {
        "diagonal": q == k,
        "previous": k == (q - 1).clamp(min=0),
        "next": k == (q + 1).clamp(max=n - 1),
        "first": k == 0,
        "block": q // 3 == k // 3,
        "checkerboard": (q + k) % 2 == 0,
    }
    if name in where:
        digits = 9 * where[name].int()
    elif name == "near":
        digits = (9 - 3 * (q - k).abs()).clamp(min=1)
    else:
        digits = torch.randint(1, 10, (n, n), generator=random)
    return tuple("".join(map(str, row)) for row in digits.tolist())


def pattern_of(rows: tuple[str, ...]) -> Float[Tensor, "query key"]:
    """Rows of digits as attention weights: each row over its sum; one of zeros is uniform.

    Raises:
        ArgumentError: not 4 to 12 rows, not as many digits in each, or no digits.

    >>> pattern_of(("1000", "0000", "0011", "0013"))
    tensor([[1.0000, 0.0000, 0.0000, 0.0000],
            [0.2500, 0.2500, 0.2500, 0.2500],
            [0.0000, 0.0000, 0.5000, 0.5000],
            [0.0000, 0.0000, 0.2500, 0.7500]])
    """
    n = len(rows)
    if n not in SIZES:
        raise ArgumentError(f"a pattern has {SIZES[0]} to {SIZES[-1]} rows, got {n}.")
    for i, row in enumerate(rows):
        if len(row) != n or not (row.isascii() and row.isdigit()):
            raise ArgumentError(f"row {i} must be {n} digits from 0 to 9, one for each key.")
    digits = torch.tensor([[float(char) for char in row] for row in rows])
    total = digits.sum(-1, keepdim=True)
    return torch.where(total > 0, digits / total.clamp(min=1.0), 1 / n)
