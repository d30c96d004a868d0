"""Metrics of the tokens a head looks at: special ones, the same token elsewhere, or none."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor
from mha_viz.core.metrics.checks import (
    Allowed,
    Pattern,
    allowed_keys,
    check_pattern,
    check_per_key,
    check_self_attention,
)
from mha_viz.errors import ArgumentError, DTypeError, ShapeError


def special_token(
    pattern: Pattern, *, is_special: Given[Bool[Array, "key"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on special tokens ([CLS], [SEP], <s> ...): mean_q sum over special k of A.

    Args:
        pattern: (layer, head, query, key).
        is_special: bool (key,).

    Returns:
        (layer, head), probability in [0, 1]; 0 if no token is special.

    Raises:
        ShapeError, DTypeError: not a pattern, or `is_special` does not fit it.

    Source: Clark et al. 2019, section 3.2.

    >>> special_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, False]))
    tensor([[0.5000]])
    """
    pattern, wide = check_pattern(pattern)
    special = check_per_key("is_special", is_special, pattern)
    if special.dtype != torch.bool:
        raise DTypeError(f"is_special must be bool, got {special.dtype}")
    return pattern[..., special].sum(-1, dtype=wide).mean(-1)


def separator_token(
    pattern: Pattern, *, is_special: Given[Bool[Array, "key"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on special tokens after the first: mean_q sum over special k >= 1 of A.

    A first special token ([CLS], <s>) is a sink of its own and counts in `first_token`.

    Args:
        pattern: (layer, head, query, key).
        is_special: bool (key,).

    Returns:
        (layer, head), probability in [0, 1]; 0 if there is no such token.

    Raises:
        ShapeError, DTypeError: not a pattern, or `is_special` does not fit it.

    Source: the [SEP] heads of Clark et al. 2019, section 3.2.

    >>> separator_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, True]))
    tensor([[0.5000]])
    """
    pattern, _ = check_pattern(pattern)
    later = check_per_key("is_special", is_special, pattern).clone()
    later[0] = False
    return special_token(pattern, is_special=later)


def sink(
    pattern: Pattern, *, sink: Given[Float[Array, "layer head query"]]
) -> Float[Tensor, "layer head"]:
    """Average the mass on a learned sink, which is no token: of the run itself, 1 - mean_q sum_k A.

    Args:
        pattern: (layer, head, query, key).
        sink: (layer, head, query), the share of each row's softmax that the sink took. It stays
            what it is where tokens are left out of the pattern, whose rows then sum to still less.

    Returns:
        (layer, head), probability in [0, 1].

    Raises:
        ShapeError, DTypeError: not a pattern, or `sink` does not fit it.

    Source: OpenAI 2025 (gpt-oss).

    >>> sink(torch.tensor([[[[0.5, 0.25]]]]), sink=torch.tensor([[[0.25]]]))
    tensor([[0.2500]])
    """
    pattern, wide = check_pattern(pattern)
    mass = as_tensor("sink", sink)
    if mass.shape != pattern.shape[:3]:
        raise ShapeError(
            f"sink must be (layer, head, query), {tuple(pattern.shape[:3])}; got "
            f"{tuple(mass.shape)}."
        )
    return mass.mean(-1, dtype=wide)


def duplicate_token(
    pattern: Pattern,
    *,
    ids: Given[Int[Array, "key"]],
    causal: bool = False,
    allowed: Allowed | None = None,
    is_special: Given[Bool[Array, "key"]] | None = None,
) -> Float[Tensor, "layer head"]:
    """Average the mass on the same token elsewhere: over the rows q that may see such a token.

    Args:
        pattern: (layer, head, query, key) of self-attention.
        ids: integers (key,), the token ids.
        causal: whether the future was hidden: a row whose token occurs again only later has
            nothing to look at, and does not count.
        allowed: bool (query, key) or (layer, query, key), True = may attend; takes the place of
            `causal`.
        is_special: bool (key,); a separator that occurs twice is not counted as a repeated word.

    Returns:
        (layer, head), probability in [0, 1]; NaN in a layer none of whose rows may see such a
        token.

    Raises:
        ShapeError, DTypeError: not a pattern, or what else is given does not fit it.
        ArgumentError: for cross-attention, or if no token occurs twice where it may be seen.

    Source: duplicate-token heads, Wang et al. 2022; there earlier places count only, here later
    ones as well where a row may see them.

    >>> pattern = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    >>> duplicate_token(pattern, ids=torch.tensor([7, 7]))
    tensor([[0.6250]])
    """
    pattern, wide = check_self_attention(pattern)
    ids = check_per_key("ids", ids, pattern)
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise DTypeError(f"ids must be integers, got {ids.dtype}")
    again = occurs_again(pattern, ids, causal, allowed, is_special)
    rows = again.any(-1).sum(-1)
    if not rows.any():
        raise ArgumentError(
            "expected a token that occurs twice and may be seen, got none (special tokens do not "
            "count)"
        )
    of_layers = zip(pattern, again.expand(len(pattern), -1, -1), strict=True)
    found = [layer[:, places].sum(-1, dtype=wide) for layer, places in of_layers]
    return torch.stack(found) / rows[:, None]  # 0 of 0 rows is NaN


def occurs_again(
    pattern: Tensor,
    ids: Tensor,
    causal: bool,
    allowed: Allowed | None,
    is_special: Array | None,
) -> Bool[Tensor, "#layer query key"]:
    """Return where a query may see its own token elsewhere; arguments as in `duplicate_token`."""
    again = (ids[:, None] == ids).fill_diagonal_(False)
    if is_special is not None:
        again[check_per_key("is_special", is_special, pattern)] = False
    return again & allowed_keys(pattern, causal, allowed)


def repeated_tokens(
    pattern: Pattern,
    *,
    ids: Given[Int[Array, "key"]],
    causal: bool = False,
    allowed: Allowed | None = None,
    is_special: Given[Bool[Array, "key"]] | None = None,
) -> Float[Tensor, "#layer 1"]:
    """Count the different tokens that may see themselves elsewhere; as `duplicate_token`."""
    (pattern, _), ids = check_pattern(pattern), as_tensor("ids", ids)
    rows = occurs_again(pattern, ids, causal, allowed, is_special).any(-1)
    return torch.tensor([[float(len(ids[layer].unique()))] for layer in rows])
