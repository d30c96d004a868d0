"""Lab 5: what W_V and W_O do together, what they cost apart, and how heads' parts add up."""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.dot_product import z
from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.learn.activations import spread

FULL_SVD = 1024  # d_model up to which all singular values are computed, and not d_head of them
MAX_SIZE = 100_000  # of n and widths in the bill


# -- one matrix instead of two ---------------------------------------------------------------------


def merge(weights: AttentionWeights, head: int) -> tuple[Tensor, Tensor | None]:
    """Multiply W_V W_O of one head, and carry its b_V through W_O.

    Returns:
        (d_in, d_model) and (d_model,), or None where there is no b_V; float32 on the CPU.

    Raises:
        ArgumentError: no such head.

    Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", the OV circuit.

    >>> ones = AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
    >>> merge(ones, 1)[0][0]
    tensor([3., 3., 3., 3.])
    """
    if not 0 <= head < len(weights.W_Q):
        raise ArgumentError(f"head must lie in 0..{len(weights.W_Q) - 1}, got {head}.")
    expanded = spread(weights)
    W_V, W_O = expanded.W_V[head], expanded.W_O[head]
    return W_V @ W_O, None if expanded.b_V is None else expanded.b_V[head] @ W_O


@dataclass(frozen=True)
class TwoWays:
    """One head's output (query, d_model) by two matrices and by their product.

    Args:
        apart: A (Y W_V + b_V) W_O. merged: A (Y W_VO + b_V W_O).
        difference: the largest of any two numbers. size: the largest number.
    """

    apart: Tensor
    merged: Tensor
    difference: float
    size: float


def two_ways(
    weights: AttentionWeights,
    head: int,
    pattern: Annotated[Tensor, "query key"],
    tokens: Annotated[Tensor, "key d_in"],
) -> TwoWays:
    """Compute a head's output both ways.

    Raises:
        ArgumentError: no such head. ShapeError: pattern and tokens do not fit.

    >>> ones = AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
    >>> two_ways(ones, 0, torch.ones(1, 1), torch.ones(1, 4)).difference
    0.0
    """
    product, added = merge(weights, head)
    if pattern.ndim != 2 or tuple(tokens.shape) != (pattern.shape[1], len(product)):
        raise ShapeError(f"tokens must be ({pattern.shape[-1]}, {len(product)}), one row per key.")
    expanded = spread(weights)
    values = tokens @ expanded.W_V[head]
    values = values if expanded.b_V is None else values + expanded.b_V[head]
    apart = z(pattern[None], values[None])[0] @ expanded.W_O[head]
    wide = tokens @ product
    merged = z(pattern[None], (wide if added is None else wide + added)[None])[0]
    return TwoWays(apart, merged, float((apart - merged).abs().max()), float(apart.abs().max()))


@dataclass(frozen=True)
class Bill:
    """The cost of one head's way from tokens to output, by two matrices and by one.

    Args:
        parameters: of W_V and W_O, and of W_VO. operations: products of two numbers that are
            added, over n tokens. break_even: the d_v from which on one matrix takes fewer.
    """

    parameters: tuple[int, int]
    operations: tuple[int, int]
    break_even: float


def bill(n: int, d_model: int, d_value: int) -> Bill:
    """Count parameters and operations for one head on n tokens, biases left out.

    Apart: n d d_v (values) + n^2 d_v (weights times values) + n d_v d (W_O). Merged: n d^2 + n^2 d.
    They are equal at d_v = d (d + n) / (2 d + n): d / 2 for short texts, d for long ones.

    Raises:
        ArgumentError: a size outside 1..100,000.

    >>> bill(10, 8, 8).operations, bill(10, 8, 4).parameters
    ((2080, 1440), (64, 64))
    """
    if not all(1 <= size <= MAX_SIZE for size in (n, d_model, d_value)):
        raise ArgumentError(f"sizes must lie in 1..{MAX_SIZE:,}, got {n}, {d_model}, {d_value}.")
    return Bill(
        parameters=(2 * d_model * d_value, d_model**2),
        operations=(2 * n * d_model * d_value + n**2 * d_value, n * d_model**2 + n**2 * d_model),
        break_even=d_model * (d_model + n) / (2 * d_model + n),
    )


@dataclass(frozen=True)
class Spectrum:
    """Singular values of W_V W_O, largest first.

    Args:
        values: all, or only the d_value that may differ from 0, where all would take long.
        rank: how many exceed rounding.
        all_of_them: whether `values` are all.
    """

    values: Tensor
    rank: int
    all_of_them: bool


def spectrum(weights: AttentionWeights, head: int) -> Spectrum:
    """Measure the rank of one head's merged matrix; W_V and W_O being thin, at most d_value.

    Rank: how many singular values exceed the largest one times the matrix's side times the
    rounding of float64, in which they are computed (the rule of numpy.linalg.matrix_rank).

    >>> spectrum(AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4)), 0).rank
    1
    """
    product, _ = merge(weights, head)
    expanded = spread(weights)
    W_V, W_O = expanded.W_V[head].double(), expanded.W_O[head].double()
    full = max(product.shape) <= FULL_SVD
    if full:
        values = torch.linalg.svdvals(W_V @ W_O)
    else:
        first, second = torch.linalg.qr(W_V).R, torch.linalg.qr(W_O.T).R
        values = torch.linalg.svdvals(first @ second.T)
    least = float(values[0]) * max(product.shape) * torch.finfo(torch.float64).eps
    return Spectrum(values, int((values > least).sum()), full)


# -- the parts that make up the whole --------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """A layer's attention output as the sum of what its heads write.

    Args:
        outputs: (head, query, d_model), z_i W_O,i. total: (query, d_model), their sum plus b_O.
        norms: (head, query) of each part. norm_of_sum, sum_of_norms: (query,), without b_O.
    """

    outputs: Tensor
    total: Tensor
    norms: Tensor
    norm_of_sum: Tensor
    sum_of_norms: Tensor


def parts(
    z: Float[Tensor, "head query d_value"],
    W_O: Float[Tensor, "head d_value d_model"],
    b_O: Float[Tensor, " d_model"] | None = None,
) -> Parts:
    """Compute each head's part of the attention output, and their sum.

    Source: Elhage et al. 2021; norms of parts Kobayashi et al. 2020.

    >>> found = parts(torch.ones(2, 1, 1), torch.tensor([[[3.0, 4.0]], [[-3.0, 0.0]]]))
    >>> found.norm_of_sum, found.sum_of_norms
    (tensor([4.]), tensor([8.]))
    """
    outputs = z @ W_O
    total = outputs.sum(0)
    norms = outputs.norm(dim=-1)
    return Parts(
        outputs, total if b_O is None else total + b_O, norms, total.norm(dim=-1), norms.sum(0)
    )


def slice_shares(outputs: Float[Tensor, "head query d_model"]) -> Float[Tensor, "head slice"]:
    """Measure the share of each head's output that lies in each head's slice of d_model.

    Slice j are the columns that head j alone would fill if heads were only put side by side. A
    share is of the squared norm over all tokens; a row sums to 1. Without preference: 1 / n_heads.

    Raises:
        ShapeError: d_model is no multiple of the number of heads, so that there are no slices.
        ArgumentError: a head that writes nothing.

    >>> slice_shares(torch.eye(2)[:, None])
    tensor([[1., 0.],
            [0., 1.]])
    """
    n_heads, d_model = len(outputs), outputs.shape[-1]
    if d_model % n_heads:
        raise ShapeError(
            f"{n_heads} heads do not divide d_model {d_model}: they have no slices of their own."
        )
    squares = outputs.double().square().sum(1).unflatten(-1, (n_heads, -1)).sum(-1)
    total = squares.sum(-1, keepdim=True)
    if not bool((total > 0).all()):
        raise ArgumentError("A head writes nothing at all: its shares are not defined.")
    return (squares / total).float()
