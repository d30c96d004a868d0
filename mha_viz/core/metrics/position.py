"""Metrics of where a head looks: how far, at which neighbour, and one copy back."""

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.blocks import RowBlock
from mha_viz.core.metrics.checks import Pattern, check_self_attention
from mha_viz.core.metrics.head_sums import row_mean
from mha_viz.core.metrics.reduction import reduced
from mha_viz.errors import ArgumentError


def _distances(block: RowBlock) -> Float[Tensor, "batch head query"]:
    """Sum each row's weights times how far away their keys are."""
    n_query, n_key = block.pattern.shape[-2:]
    rows = slice(block.first, block.first + n_query)
    return block.dot(block.texts.distances(rows, n_key, block.pattern.dtype))


@row_mean(_distances)
def distance(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average how far a head looks: mean_q sum_k A |q - k|.

    Returns (layer, head), tokens in [0, key - 1]. Raises ArgumentError: for cross-attention.

    Source: Vig and Belinkov 2019.

    >>> distance(torch.tensor([[[[0.5, 0.5], [0.5, 0.5]]]]))
    tensor([[0.5000]])
    """
    check_self_attention(pattern)
    return reduced(distance, pattern)


@row_mean(lambda block: block.diagonal(-1), lambda texts: texts.lengths - 1)
def previous_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token before: mean over q >= 1 of A[q, q - 1].

    Returns (layer, head), probability in [0, 1]. Raises ArgumentError: for cross-attention, or a
    single token.

    Source: Clark et al. 2019, section 3.1; Voita et al. 2019.

    >>> previous_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.7500]])
    """
    check_self_attention(pattern, at_least=2)
    return reduced(previous_token, pattern)


@row_mean(lambda block: block.diagonal(1), lambda texts: texts.lengths - 1)
def next_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token after: mean over q <= key - 2 of A[q, q + 1].

    Returns (layer, head), probability in [0, 1]; 0 in a causal model. Raises ArgumentError: for
    cross-attention, or a single token.

    Source: Clark et al. 2019, section 3.1; Voita et al. 2019.

    >>> next_token(torch.tensor([[[[0.5, 0.5], [0.75, 0.25]]]]))
    tensor([[0.5000]])
    """
    check_self_attention(pattern, at_least=2)
    return reduced(next_token, pattern)


@row_mean(lambda block: block.diagonal(0))
def self_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token itself: mean_q A[q, q].

    Returns (layer, head), probability in [0, 1]. Raises ArgumentError: for cross-attention.

    Source: Clark et al. 2019, section 3.1.

    >>> self_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.6250]])
    """
    check_self_attention(pattern)
    return reduced(self_token, pattern)


@row_mean(lambda block: block.pattern[..., 0])
def first_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the first key: mean_q A[q, 0]. A causal row 0 can look nowhere else.

    Returns (layer, head), probability in [0, 1].

    Source: Vig and Belinkov 2019; the attention sink of Xiao et al. 2024.

    >>> first_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.8750]])
    """
    return reduced(first_token, pattern)


def _copied(block: RowBlock) -> Float[Tensor, "batch head row"]:
    """Return what the second copy's queries give the token after their own in the first copy."""
    period, start = block.texts.period, block.texts.start
    if period is None:
        raise ArgumentError("induction needs the period of a repeated text")
    weights = block.diagonal(1 - period)
    begin = max(block.first, period - 1)  # the query of the first of these weights
    return weights[..., max(0, start + period - begin) : max(0, start + 2 * period - begin)]


@row_mean(_copied, lambda texts: torch.full_like(texts.lengths, texts.period or 0))
def induction(pattern: Pattern, *, period: int, start: int = 0) -> Float[Tensor, "layer head"]:
    """Average, on a random text repeated twice, the mass on the token after the same token.

    Mean over the second copy's positions q of A[q, q - period + 1]. `period` tokens make a copy, 2
    at least; `start` tokens stand before the first (a [CLS], say). Returns (layer, head),
    probability in [0, 1]. Raises ArgumentError: for cross-attention, or if two copies do not fit
    into the text.

    Source: Olsson et al. 2022, the prefix-matching score.

    >>> a, b, c, d = torch.eye(4)
    >>> induction(torch.stack([a, a, b, c]).reshape(1, 1, 4, 4), period=2)
    tensor([[1.]])
    """
    pattern, _ = check_self_attention(pattern)
    end = start + 2 * period
    if period < 2 or start < 0 or end > pattern.shape[-1]:
        raise ArgumentError(
            "expected period >= 2, start >= 0 and start + 2 * period within the text's "
            f"{pattern.shape[-1]} tokens, got period {period} and start {start}"
        )
    return reduced(induction, pattern, period=period, start=start)
