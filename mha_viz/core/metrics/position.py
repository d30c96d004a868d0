"""Metrics of where a head looks: how far, at which neighbour, one copy back, at which tokens."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given
from mha_viz.core.metrics.blocks import RowBlock, Texts, Visible
from mha_viz.core.metrics.checks import Allowed, Pattern, TokenFacts, check_self_attention
from mha_viz.core.metrics.head_sums import Reduction, Total, row_mean
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
    single token. Source: Clark et al. 2019, section 3.1; Voita et al. 2019.

    >>> previous_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.7500]])
    """
    check_self_attention(pattern, at_least=2)
    return reduced(previous_token, pattern)


@row_mean(lambda block: block.diagonal(1), lambda texts: texts.lengths - 1)
def next_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token after: mean over q <= key - 2 of A[q, q + 1].

    Returns (layer, head), probability in [0, 1]; 0 in a causal model. Raises ArgumentError: for
    cross-attention, or a single token. Source: Clark et al. 2019, section 3.1; Voita et al. 2019.

    >>> next_token(torch.tensor([[[[0.5, 0.5], [0.75, 0.25]]]]))
    tensor([[0.5000]])
    """
    check_self_attention(pattern, at_least=2)
    return reduced(next_token, pattern)


@row_mean(lambda block: block.diagonal(0))
def self_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the token itself: mean_q A[q, q].

    Returns (layer, head), probability in [0, 1]. Raises ArgumentError: for cross-attention. Source:
    Clark et al. 2019, section 3.1.

    >>> self_token(torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]]))
    tensor([[0.6250]])
    """
    check_self_attention(pattern)
    return reduced(self_token, pattern)


@row_mean(lambda block: block.pattern[..., 0])
def first_token(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the mass on the first key: mean_q A[q, 0]. A causal row 0 can look nowhere else.

    Returns (layer, head), probability in [0, 1]. Source: Vig and Belinkov 2019; the attention sink
    of Xiao et al. 2024.

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
    into the text. Source: Olsson et al. 2022, the prefix-matching score.

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
    return reduced(induction, pattern, TokenFacts(period=period, start=start))


def _have_special(texts: Texts) -> Tensor:
    assert texts.is_special is not None
    return texts.is_special.any(-1)


@row_mean(lambda block: block.on_special, defined=_have_special)
def special_token(
    pattern: Pattern, *, is_special: Given[Bool[Array, "key"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on special tokens ([CLS], [SEP], <s> ...): mean_q sum over special k of A.

    Returns (layer, head), probability in [0, 1]; 0 if no token is special. Source: Clark et al.
    2019, section 3.2.

    >>> import torch
    >>> special_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, False]))
    tensor([[0.5000]])
    """
    return reduced(special_token, pattern, TokenFacts(is_special=is_special))


@row_mean(lambda block: block.on_special[..., 1:], defined=_have_special)
def separator_token(
    pattern: Pattern, *, is_special: Given[Bool[Array, "key"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on special tokens after the first: mean_q sum over special k >= 1 of A.

    A first special token ([CLS], <s>) is a sink of its own and counts in `first_token`.

    Returns (layer, head), probability in [0, 1]; 0 if there is no such token. Source: the [SEP]
    heads of Clark et al. 2019, section 3.2.

    >>> import torch
    >>> separator_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, True]))
    tensor([[0.5000]])
    """
    return reduced(separator_token, pattern, TokenFacts(is_special=is_special))


_sink = row_mean(lambda block: block.sink_mass, of_idle=True)


@_sink
def sink(
    pattern: Pattern, *, sink: Given[Float[Array, "layer head query"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on a learned sink, which is no token: of the run itself, 1 - mean_q sum_k A.

    `sink` (layer, head, query) is the share of each row's softmax that the sink took. It stays what
    it is where tokens are left out of the pattern, whose rows then sum to still less. Returns
    (layer, head), probability in [0, 1]. Source: OpenAI 2025 (gpt-oss).

    >>> import torch
    >>> sink(torch.tensor([[[[0.5, 0.25]]]]), sink=torch.tensor([[[0.25]]]))
    tensor([[0.2500]])
    """
    return reduced(_sink, pattern, sink=sink)


def _on_repeats(block: RowBlock) -> tuple[Total, Tensor]:
    """Sum the weights on repeated tokens, and count the rows that see one."""
    mass = block.dot(block.visible.repeats_as(block.pattern.dtype))
    return Total(mass), block.visible.n_repeating


def _check_repeats(rows: Tensor) -> None:
    if not rows.any():
        raise ArgumentError(
            "expected a token that occurs twice and may be seen, got none (special tokens do not "
            "count)"
        )


# 0 of 0 rows is NaN
@Reduction(
    _on_repeats,
    lambda texts, mass, rows: mass / rows,
    check=(lambda block: (block.visible.n_repeating,), _check_repeats),
)
def duplicate_token(
    pattern: Pattern,
    *,
    ids: Given[Int[Array, "key"]],
    causal: bool = False,
    allowed: Allowed | None = None,
    is_special: Given[Bool[Array, "key"]] | None = None,
) -> Float[Tensor, "layer head"]:
    """Average the mass on the same token elsewhere: over the rows q that may see such a token.

    `ids` are integers (key,), the token ids. A row whose token occurs again only where it may not
    look does not count: in the future where `causal`, or where `allowed`, bool (query, key) or
    (layer, query, key), is False; it takes the place of `causal`. With `is_special`, bool (key,), a
    separator that occurs twice is not counted as a repeated word. Returns (layer, head),
    probability in [0, 1]; NaN in a layer none of whose rows may see such a token. Raises
    ArgumentError: for cross-attention, or if no token occurs twice where it may be seen. Source:
    duplicate-token heads, Wang et al. 2022; there earlier places count only, here later ones as
    well where a row may see them.

    >>> import torch
    >>> pattern = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    >>> duplicate_token(pattern, ids=torch.tensor([7, 7]))
    tensor([[0.6250]])
    """
    check_self_attention(pattern)
    return reduced(duplicate_token, pattern, TokenFacts(ids, is_special, causal, allowed))


def repeated_tokens(visible: Visible, texts: Texts) -> Float[Tensor, "#batch"]:
    """Count the different tokens that may see themselves elsewhere."""
    assert visible.repeats is not None and texts.ids is not None
    queries = visible.repeats.any(-1)
    same = texts.ids[:, :, None] == texts.ids[:, None]
    held_before = (same & queries[:, None]).tril(-1).any(-1)
    return (queries & ~held_before).sum(-1).float()
