"""Lab 2: attention without weights looks at itself; what W_V is alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.dot_product import attention, scores
from mha_viz.core.stored_runs import StoredRun
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.learn.labs.own_reflection.learning import Learned, learn_left

START = ((2.4, 0.6), (0.9, 0.5), (-0.8, 1.1), (-1.6, -1.2), (0.4, -1.0), (1.2, 1.5))
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SPREADS = (0.0, 0.25, 0.5, 1.0)
TEMPERATURES = tuple(10 ** (step / 4) for step in range(4, -11, -1))  # 10 down to 0.003
_TIE = 1e-9  # of two scores, relative: equal but for rounding


@dataclass(frozen=True)
class Beaten:
    """A token that gives more weight to another one than to itself.

    Args:
        token, by: the two, by number; `by` is the one it looks at most.
        length, other_length: |x| and |y|. cosine: of the angle between them, in [-1, 1].
    """

    token: int
    by: int
    length: float
    other_length: float
    cosine: float


@dataclass(frozen=True)
class Reflection:
    """Attention of tokens to themselves with Q = K = V = X, one head.

    Args:
        dots: X X^T, (token, token), symmetric. pattern: its softmax after 1 / sqrt(d).
        gaps: (x.x + y.y) / 2 - x.y of every pair, which is |x - y|^2 / 2: never below 0, and 0
            only where both tokens are the same.
        beaten: the tokens whose largest weight is not their own.
    """

    dots: Tensor
    pattern: Tensor
    gaps: Tensor
    beaten: tuple[Beaten, ...]


def reflection(tokens: Annotated[Tensor, "token d"]) -> Reflection:
    """Compute softmax(X X^T / sqrt(d)), and the tokens that do not look at themselves most.

    x.y = |x| |y| cos, so x gives y more weight than itself exactly where |y| cos > |x|; tokens of
    equal length never do (Cauchy-Schwarz). A tie counts for the token itself. For any tokens x.y
    is at most the mean of x.x and y.y, so that of two tokens only the shorter one can prefer the
    other to itself, and the longest of all looks at itself most.

    Raises:
        ShapeError: no such matrix.

    Source: Vaswani et al. 2017, eq. 1, without projections.

    >>> [(b.token, b.by) for b in reflection(torch.tensor([[1.0, 0.0], [3.0, 0.0]])).beaten]
    [(0, 1)]
    """
    if tokens.ndim != 2 or len(tokens) < 2:
        raise ShapeError("tokens must be a matrix (token, d) of two tokens at least.")
    _, pattern = attention(tokens[None], tokens[None], tokens[None])
    assert pattern is not None
    dots = scores(tokens[None].double(), tokens[None].double(), scale=1.0)[0]
    self_scores = dots.diagonal()
    lengths, gaps = self_scores.sqrt(), (self_scores[:, None] + self_scores) / 2 - dots
    cosines = (dots / (lengths[:, None] * lengths)).nan_to_num(0.0)
    lost = [
        Beaten(i, j, *map(float, (lengths[i], lengths[j], cosines[i, j])))
        for i, j in enumerate(dots.argmax(-1).tolist())
        if _beats(dots[i, j], dots[i, i])
    ]
    return Reflection(dots.to(tokens.dtype), pattern[0], gaps.to(tokens.dtype), tuple(lost))


def distances(tokens: Float[Tensor, "token d"]) -> Float[Tensor, "token token"]:
    """Compute |x - y| of all pairs; exactly 0 on the diagonal.

    >>> distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    tensor([[0., 5.],
            [5., 0.]])
    """
    return (tokens[:, None] - tokens).norm(dim=-1)


def below_half_sum(matrix: Float[Tensor, "token token"]) -> int:
    """Count the pairs x, y below half the sum of their two numbers on the diagonal.

    Self-dominance as it is at times claimed: true of scores x.y for any two different tokens, and
    impossible for a distance, whose diagonal is 0.

    >>> below_half_sum(torch.tensor([[2.0, 1.0], [1.0, 4.0]]))
    1
    """
    diagonal = matrix.diagonal()
    return int((matrix < (diagonal[:, None] + diagonal) / 2).triu(1).sum())


def equal_norms(tokens: Float[Tensor, "token d"]) -> Float[Tensor, "token d"]:
    """Scale the tokens to one length, their root mean square, and keep their directions.

    A token of zeros has no direction and stays as it is.

    >>> equal_norms(torch.tensor([[3.0, 4.0], [0.0, 5.0]]))
    tensor([[3., 4.],
            [0., 5.]])
    """
    lengths = tokens.norm(dim=-1, keepdim=True)
    return F.normalize(tokens, dim=-1) * lengths.square().mean().sqrt()


def _beats(other: Tensor, itself: Tensor) -> Tensor:
    return other > itself + _TIE * itself.abs()


# -- random tokens -------------------------------------------------------------------------------


def share_beaten(
    widths: Sequence[int] = WIDTHS,
    spreads: Sequence[float] = SPREADS,
    n_tokens: int = 16,
    n_texts: int = 64,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Measure, on random tokens, the share of rows whose largest weight is not their own.

    Args:
        widths: d, one number of each list for each.
        spreads: standard deviation of ln |x|; directions are uniform. 0 is equal norms.
        n_tokens: in a text.
        n_texts: to average over.
        seed: of the random tokens.

    Returns:
        Shares in [0, 1] by name: "Gaussian" for rows with independent normal entries, as drawn,
        and each spread, written as a number.

    Raises:
        ArgumentError: sizes below 1 (tokens: 2), a negative spread, more than 2e8 numbers.

    >>> share_beaten([4], [0.0])["0"]
    [0.0]
    """
    if n_tokens < 2 or n_texts < 1 or not widths or min(widths) < 1 or min(spreads, default=0) < 0:
        raise ArgumentError("2 tokens, 1 text, a width of 1 and a spread of 0 are the least.")
    if n_tokens * n_texts * max(*widths, n_tokens) > 2e8:
        raise ArgumentError("That many random tokens do not fit: take fewer texts or widths.")
    random = torch.Generator().manual_seed(seed)
    shares: dict[str, list[float]] = {"Gaussian": [], **{f"{size:g}": [] for size in spreads}}
    for d in widths:
        # The same draws for all lines: what differs is the lengths only.
        drawn = torch.randn(n_texts, n_tokens, d, generator=random, dtype=torch.float64)
        sizes = torch.randn(n_texts, n_tokens, 1, generator=random, dtype=torch.float64)
        shares["Gaussian"].append(_share(drawn))
        for spread in spreads:
            turned = F.normalize(drawn, dim=-1)
            shares[f"{spread:g}"].append(_share(turned * (spread * sizes).exp()))
    return shares


def _share(tokens: Float[Tensor, "text token d"]) -> float:
    dots = scores(tokens[:, None], tokens[:, None], scale=1.0)[:, 0]
    self_scores = dots.diagonal(dim1=-2, dim2=-1)
    return float(_beats(dots.amax(-1), self_scores).double().mean())


# -- attention as the identity -------------------------------------------------------------------


@dataclass(frozen=True)
class Pointwise:
    """Attention beside a convolution whose kernel is one token wide.

    Args:
        pattern: (token, token). attention, convolution: (token, d_value), the two outputs.
        difference: the largest between them, absolute.
    """

    pattern: Tensor
    attention: Tensor
    convolution: Tensor
    difference: float


def pointwise(
    tokens: Annotated[Tensor, "token d"],
    W_V: Annotated[Tensor, "d d_value"],
    temperature: float | None = None,
) -> Pointwise:
    """Compare attention with Q = K = X, values X W_V, with conv1d of kernel 1 and weights W_V.

    With the identity for a pattern they are the same map. A temperature towards 0 leads there as
    far as each token's score with itself is the largest; a mask is there at once.

    Args:
        tokens: X (token, d).
        W_V: (d, d_value).
        temperature: T > 0 in softmax(X X^T / T); None is a mask that shows each token itself only.

    Raises:
        ArgumentError: a temperature not above 0. ShapeError: matrices that do not fit.

    Source: Cordonnier et al. 2020 for attention as convolution, here with one pixel to see.

    >>> x = torch.eye(3)
    >>> pointwise(x, torch.ones(3, 2)).difference
    0.0
    """
    if temperature is not None and not 0 < temperature < math.inf:
        raise ArgumentError(f"temperature must be above 0 and finite, got {temperature}.")
    if tokens.ndim != 2 or W_V.ndim != 2 or tokens.shape[1] != W_V.shape[0]:
        raise ShapeError("tokens must be (token, d) and W_V (d, d_value).")
    itself = torch.eye(len(tokens), dtype=torch.bool) if temperature is None else None
    scale = 1.0 if temperature is None else 1 / temperature
    x = tokens[None]
    z, pattern = attention(x, x, x @ W_V, mask=itself, scale=scale)
    assert pattern is not None
    # conv1d: (batch, channel in, place) with weights (channel out, channel in, kernel)
    convolved = F.conv1d(tokens.T[None], W_V.T[:, :, None])[0].T
    return Pointwise(pattern[0], z[0], convolved, float((z[0] - convolved).abs().max()))


def pointwise_example(
    n_tokens: int, seed: int = 0
) -> tuple[Float[Tensor, "token 4"], Float[Tensor, "4 3"]]:
    """Draw random tokens of length 1, and a random W_V with one decimal.

    >>> pointwise_example(3)[0].norm(dim=-1)
    tensor([1., 1., 1.])
    """
    tokens = torch.randn(n_tokens, 4, generator=torch.Generator().manual_seed(seed))
    W_V = torch.randn(4, 3, generator=torch.Generator().manual_seed(1_000 + seed))
    return F.normalize(tokens, dim=-1), (W_V * 10).round() / 10


def differences(tokens: Float[Tensor, "token d"], W_V: Float[Tensor, "d d_value"]) -> list[float]:
    """Compute `pointwise(...).difference` for each of `TEMPERATURES`."""
    return [pointwise(tokens, W_V, temperature).difference for temperature in TEMPERATURES]


STORED = (StoredRun("own-reflection", (300, 0, True), Learned, learn_left),)
