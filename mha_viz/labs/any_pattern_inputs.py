"""Lab 7: tokens that are no one-hot vectors, and what they forbid a head of any width."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.errors import ArgumentError


def real_tokens(
    n: int, d_model: int, repeat: bool = False, seed: int = 0
) -> Float[Tensor, "token d_model"]:
    """Random tokens as wide as a model's, and not as many numbers wide as there are tokens.

    Args:
        n: tokens, 2 or more.
        d_model: width of each, 1 or more.
        repeat: the last token is the first one again.
        seed: of the random numbers.

    Raises:
        ArgumentError: sizes below that.

    >>> X = real_tokens(4, 2, repeat=True)
    >>> X.shape, bool((X[0] == X[3]).all())
    (torch.Size([4, 2]), True)
    """
    if n < 2 or d_model < 1:
        raise ArgumentError(f"2 tokens of width 1 are the least, got {n} of width {d_model}.")
    made = torch.randn(n, d_model, generator=torch.Generator().manual_seed(seed))
    if repeat:
        made[-1] = made[0]
    return made


def onto_span(tokens: Float[Tensor, "token d_model"]) -> Float[Tensor, "token token"]:
    """The projection onto what X W can be, for any W: the span of X's columns.

    >>> onto_span(torch.tensor([[3.0], [4.0]]))
    tensor([[0.3600, 0.4800],
            [0.4800, 0.6400]])
    """
    U, sizes, _ = torch.linalg.svd(tokens.double(), full_matrices=False)
    basis = U[:, sizes > 1e-6 * sizes.max()]
    return (basis @ basis.mT).to(tokens.dtype)


def tied(target: Float[Tensor, "query key"], one: int, other: int) -> Float[Tensor, "query key"]:
    """The nearest pattern, in KL, of all in which two tokens are the same.

    The same token asks the same and is found the same: both rows are equal, and both columns.
    The mean over rows, then over columns, has the least KL(target || pattern) among them, so that
    no head comes nearer, whatever its width.

    Args:
        target: rows that sum to 1.
        one: the first of the two tokens.
        other: the second.

    Source: the mean minimises the summed KL divergence to it (Cover and Thomas 2006, chapter 2).

    >>> tied(torch.eye(3), 0, 2)
    tensor([[0.5000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    """
    pair, made = [one, other], target.clone()
    made[pair] = made[pair].mean(0, keepdim=True)
    made[:, pair] = made[:, pair].mean(1, keepdim=True)
    return made


def divergence(
    target: Float[Tensor, "query key"], pattern: Float[Tensor, "query key"]
) -> Float[Tensor, ""]:
    """Mean over rows of KL(target || pattern), nats.

    >>> divergence(torch.eye(2), torch.full((2, 2), 0.5))
    tensor(0.6931)
    """
    return (
        (torch.special.xlogy(target, target) - torch.special.xlogy(target, pattern)).sum(-1).mean()
    )
