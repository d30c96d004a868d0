"""Metrics of where a head looks: how far, at which neighbour, and one copy back."""

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.checks import Pattern, check_pattern, check_self_attention
from mha_viz.errors import ArgumentError


def distance(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average how far a head looks: mean_q sum_k A |q - k|.

    Args:
        pattern: (layer, head, query, key) of self-attention.

    Returns:
        (layer, head), tokens in [0, key - 1].

    Raises:
        ShapeError, DTypeError: not a pattern.
        ArgumentError: for cross-attention.

    Source: Vig and Belinkov 2019.

    >>> distance(torch.tensor([[[[0.5, 0.5], [0.5, 0.5]]]]))
    tensor([[0.5000]])
    """
    pattern, wide = check_self_attention(pattern)
    at = torch.arange(pattern.shape[-1], device=pattern.device, dtype=wide)
    gaps = (at[:, None] - at).abs()
    # No matrix product: it adds one term after the other, and over 512 x 512 was off by 1e-4.
    sums = torch.stack([(layer.to(wide) * gaps).sum((-2, -1)) for layer in pattern])
    return sums / pattern.shape[-2]


def previous_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token before: mean over q >= 1 of A[q, q - 1].

    Args:
        pattern: (layer, head, query, key) of self-attention, two tokens at least.

    Returns:
        (layer, head), probability in [0, 1].

    Raises:
        ShapeError, DTypeError: not a pattern.
        ArgumentError: for cross-attention, or a single token.

    Source: Clark et al. 2019, section 3.1; Voita et al. 2019.

    >>> previous_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.7500]])
    """
    pattern, wide = check_self_attention(pattern, at_least=2)
    return _diagonal(pattern, -1).mean(-1, dtype=wide)


def next_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token after: mean over q <= key - 2 of A[q, q + 1].

    Args:
        pattern: (layer, head, query, key) of self-attention, two tokens at least.

    Returns:
        (layer, head), probability in [0, 1]; 0 in a causal model.

    Raises:
        ShapeError, DTypeError: not a pattern.
        ArgumentError: for cross-attention, or a single token.

    Source: Clark et al. 2019, section 3.1; Voita et al. 2019.

    >>> next_token(torch.tensor([[[[0.5, 0.5], [0.75, 0.25]]]]))
    tensor([[0.5000]])
    """
    pattern, wide = check_self_attention(pattern, at_least=2)
    return _diagonal(pattern, 1).mean(-1, dtype=wide)


def self_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token itself: mean_q A[q, q].

    Args:
        pattern: (layer, head, query, key) of self-attention.

    Returns:
        (layer, head), probability in [0, 1].

    Raises:
        ShapeError, DTypeError: not a pattern.
        ArgumentError: for cross-attention.

    Source: Clark et al. 2019, section 3.1.

    >>> self_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.6250]])
    """
    pattern, wide = check_self_attention(pattern)
    return _diagonal(pattern, 0).mean(-1, dtype=wide)


def first_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the first key: mean_q A[q, 0]. A causal row 0 can look nowhere else.

    Args:
        pattern: (layer, head, query, key).

    Returns:
        (layer, head), probability in [0, 1].

    Raises:
        ShapeError, DTypeError: not a pattern.

    Source: Vig and Belinkov 2019; the attention sink of Xiao et al. 2024.

    >>> first_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.8750]])
    """
    pattern, wide = check_pattern(pattern)
    return pattern[..., 0].mean(-1, dtype=wide)


def induction(pattern: Pattern, *, period: int, start: int = 0) -> Float[Tensor, "layer head"]:
    """Average, on a random text repeated twice, the mass on the token after the same token.

    Mean over the second copy's positions q of A[q, q - period + 1].

    Args:
        pattern: (layer, head, query, key) of self-attention on the repeated text.
        period: tokens in one copy, 2 at least.
        start: tokens before the first copy (a [CLS], say).

    Returns:
        (layer, head), probability in [0, 1].

    Raises:
        ShapeError, DTypeError: not a pattern.
        ArgumentError: for cross-attention, or if two copies do not fit into the text.

    Source: Olsson et al. 2022, the prefix-matching score.

    >>> a, b, c, d = torch.eye(4)
    >>> induction(torch.stack([a, a, b, c]).reshape(1, 1, 4, 4), period=2)
    tensor([[1.]])
    """
    pattern, wide = check_self_attention(pattern)
    end = start + 2 * period
    if period < 2 or start < 0 or end > pattern.shape[-1]:
        raise ArgumentError(
            "expected period >= 2, start >= 0 and start + 2 * period within the text's "
            f"{pattern.shape[-1]} tokens, got period {period} and start {start}"
        )
    copies = pattern[..., start:end, start:end]
    # the diagonal begins on the first copy's last token, which nothing precedes: drop it
    return _diagonal(copies, 1 - period)[..., 1:].mean(-1, dtype=wide)


def _diagonal(pattern: Tensor, offset: int) -> Tensor:
    """Return A[q, q + offset] for every q that has it: a view, (layer, head, those q)."""
    return pattern.diagonal(offset, dim1=-2, dim2=-1)
