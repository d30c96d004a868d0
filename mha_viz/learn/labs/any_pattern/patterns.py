"""Lab 7: patterns painted as rows of digits, and those that tokens themselves rule out."""

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.errors import ArgumentError

SIZES = tuple(range(4, 13))
Digits = tuple[str, ...]  # of a painted pattern: a row for each query, a digit for each key
PRESETS = ("diagonal", "previous", "next", "first", "block", "checkerboard", "near", "random")


def preset(name: str, n: int, seed: int = 0) -> Digits:
    """Make one of PRESETS for 4 to 12 tokens, as rows of digits from 0 (no weight) to 9.

    The seed draws "random", whose digits are 1 to 9.

    >>> preset("previous", 4)
    ('9000', '9000', '0900', '0090')
    """
    if name not in PRESETS or n not in SIZES:
        raise ArgumentError(f"there is no pattern {name!r} of {n} tokens.")
    q, k = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    random = torch.Generator().manual_seed(seed)
    masks = {
        "diagonal": q == k,
        "previous": k == (q - 1).clamp(min=0),
        "next": k == (q + 1).clamp(max=n - 1),
        "first": k == 0,
        "block": q // 3 == k // 3,
        "checkerboard": (q + k) % 2 == 0,
    }
    if name in masks:
        digits = 9 * masks[name].int()
    elif name == "near":
        digits = (9 - 3 * (q - k).abs()).clamp(min=1)
    else:
        digits = torch.randint(1, 10, (n, n), generator=random)
    return tuple("".join(map(str, row)) for row in digits.tolist())


def pattern_of(rows: Digits) -> Float[Tensor, "query key"]:
    """Return rows of digits as weights: each row over its sum; a row of zeros is uniform.

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


def real_tokens(
    n: int, d_model: int, repeat: bool = False, seed: int = 0
) -> Float[Tensor, "token d_model"]:
    """Draw tokens of width d_model; with `repeat` the last one equals the first.

    >>> X = real_tokens(4, 2, repeat=True)
    >>> X.shape, bool((X[0] == X[3]).all())
    (torch.Size([4, 2]), True)
    """
    tokens = torch.randn(n, d_model, generator=torch.Generator().manual_seed(seed))
    if repeat:
        tokens[-1] = tokens[0]
    return tokens


def onto_span(tokens: Float[Tensor, "token d_model"]) -> Float[Tensor, "token token"]:
    """Return the projection onto the span of X's columns, where X W lies for any W.

    >>> onto_span(torch.tensor([[3.0], [4.0]]))
    tensor([[0.3600, 0.4800],
            [0.4800, 0.6400]])
    """
    U, sizes, _ = torch.linalg.svd(tokens.double(), full_matrices=False)
    basis = U[:, sizes > 1e-6 * sizes.max()]
    return (basis @ basis.mT).to(tokens.dtype)


def tied(target: Float[Tensor, "query key"], first: int, second: int) -> Float[Tensor, "query key"]:
    """Return the nearest pattern, in KL, of all in which tokens `first` and `second` are equal.

    The same token has the same query and key: both rows are equal, and both columns.
    The mean over rows, then over columns, has the least KL(target || pattern) among them, so that
    no head comes nearer, whatever its width.

    Source: the mean minimises the summed KL divergence to it (Cover and Thomas 2006, chapter 2).

    >>> tied(torch.eye(3), 0, 2)
    tensor([[0.5000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    """
    pair, pattern = [first, second], target.clone()
    pattern[pair] = pattern[pair].mean(0, keepdim=True)
    pattern[:, pair] = pattern[:, pair].mean(1, keepdim=True)
    return pattern


def divergence(
    target: Float[Tensor, "query key"], pattern: Float[Tensor, "query key"]
) -> Float[Tensor, ""]:
    """Return the mean over rows of KL(target || pattern), nats.

    >>> divergence(torch.eye(2), torch.full((2, 2), 0.5))
    tensor(0.6931)
    """
    terms = torch.special.xlogy(target, target) - torch.special.xlogy(target, pattern)
    return terms.sum(-1).mean()
