"""Metrics of the tokens a head looks at: special ones, the same token elsewhere, or none."""

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given
from mha_viz.core.metrics.blocks import RowBlock, Texts, Visible
from mha_viz.core.metrics.checks import Allowed, Pattern, check_self_attention
from mha_viz.core.metrics.head_sums import Reduction, Total, row_mean
from mha_viz.core.metrics.reduction import reduced
from mha_viz.errors import ArgumentError


def _have_special(texts: Texts) -> Tensor:
    assert texts.is_special is not None
    return texts.is_special.any(-1)


@row_mean(lambda block: block.on_special, defined=_have_special)
def special_token(
    pattern: Pattern, *, is_special: Given[Bool[Array, "key"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on special tokens ([CLS], [SEP], <s> ...): mean_q sum over special k of A.

    Returns (layer, head), probability in [0, 1]; 0 if no token is special.

    Source: Clark et al. 2019, section 3.2.

    >>> import torch
    >>> special_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, False]))
    tensor([[0.5000]])
    """
    return reduced(special_token, pattern, is_special=is_special)


@row_mean(lambda block: block.on_special[..., 1:], defined=_have_special)
def separator_token(
    pattern: Pattern, *, is_special: Given[Bool[Array, "key"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on special tokens after the first: mean_q sum over special k >= 1 of A.

    A first special token ([CLS], <s>) is a sink of its own and counts in `first_token`.

    Returns (layer, head), probability in [0, 1]; 0 if there is no such token.

    Source: the [SEP] heads of Clark et al. 2019, section 3.2.

    >>> import torch
    >>> separator_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, True]))
    tensor([[0.5000]])
    """
    return reduced(separator_token, pattern, is_special=is_special)


_sink = row_mean(lambda block: block.sink_mass, of_idle=True)


@_sink
def sink(
    pattern: Pattern, *, sink: Given[Float[Array, "layer head query"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on a learned sink, which is no token: of the run itself, 1 - mean_q sum_k A.

    `sink` (layer, head, query) is the share of each row's softmax that the sink took. It stays what
    it is where tokens are left out of the pattern, whose rows then sum to still less. Returns
    (layer, head), probability in [0, 1].

    Source: OpenAI 2025 (gpt-oss).

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
    ArgumentError: for cross-attention, or if no token occurs twice where it may be seen.

    Source: duplicate-token heads, Wang et al. 2022; there earlier places count only, here later
    ones as well where a row may see them.

    >>> import torch
    >>> pattern = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    >>> duplicate_token(pattern, ids=torch.tensor([7, 7]))
    tensor([[0.6250]])
    """
    check_self_attention(pattern)
    about: dict[str, Any] = {"causal": causal, "allowed": allowed, "is_special": is_special}
    return reduced(duplicate_token, pattern, ids=ids, **about)


def repeated_tokens(visible: Visible, texts: Texts) -> Float[Tensor, "#batch"]:
    """Count the different tokens that may see themselves elsewhere."""
    assert visible.repeats is not None and texts.ids is not None
    queries = visible.repeats.any(-1)
    same = texts.ids[:, :, None] == texts.ids[:, None]
    held_before = (same & queries[:, None]).tril(-1).any(-1)
    return (queries & ~held_before).sum(-1).float()
