"""Which tokens a head looks at: special ones, and the same token elsewhere."""

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.checks import Anything
from mha_viz.core.metrics.checks import (
    check_pattern,
    check_per_key,
    check_self_attention,
)
from mha_viz.errors import ArgumentError, DTypeError


def special_token(pattern: Anything, *, is_special: Anything) -> Float[Tensor, "layer head"]:
    """Mean mass on special tokens ([CLS], [SEP], <s> ...): mean_q sum over special k of A.

    Args:
        pattern: (layer, head, query, key).
        is_special: bool (key,).

    Returns:
        (layer, head), probability in [0, 1]; 0 if no token is special.

    Raises:
        ShapeError, DTypeError: if it is no pattern, or `is_special` does not fit it.

    Source: Clark et al. 2019, section 3.2.

    >>> special_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, False]))
    tensor([[0.5000]])
    """
    wide = check_pattern(pattern)
    check_per_key("is_special", is_special, pattern)
    if is_special.dtype != torch.bool:
        raise DTypeError(f"is_special must be bool, got {is_special.dtype}")
    return pattern[..., is_special].sum(-1, dtype=wide).mean(-1)


def separator_token(pattern: Anything, *, is_special: Anything) -> Float[Tensor, "layer head"]:
    """Mean mass on special tokens after the first: mean_q sum over special k >= 1 of A.

    A first special token ([CLS], <s>) is a sink of its own and counts in `first_token`.

    Args:
        pattern: (layer, head, query, key).
        is_special: bool (key,).

    Returns:
        (layer, head), probability in [0, 1]; 0 if there is no such token.

    Raises:
        ShapeError, DTypeError: if it is no pattern, or `is_special` does not fit it.

    Source: the [SEP] heads of Clark et al. 2019, section 3.2.

    >>> separator_token(torch.tensor([[[[0.5, 0.5]]]]), is_special=torch.tensor([True, True]))
    tensor([[0.5000]])
    """
    check_pattern(pattern)
    check_per_key("is_special", is_special, pattern)
    later = is_special.clone()
    later[0] = False
    return special_token(pattern, is_special=later)


def duplicate_token(
    pattern: Anything, *, ids: Anything, causal: bool = False
) -> Float[Tensor, "layer head"]:
    """Mean mass on the same token elsewhere: over the rows q that may see such a token.

    Args:
        pattern: (layer, head, query, key) of self-attention.
        ids: integers (key,), the token ids.
        causal: whether the future was hidden: a row whose token occurs again only later has
            nothing to look at, and does not count.

    Returns:
        (layer, head), probability in [0, 1].

    Raises:
        ShapeError, DTypeError: if it is no pattern, or `ids` do not fit it.
        ArgumentError: for cross-attention, or if no token occurs twice.

    Source: duplicate-token heads, Wang et al. 2022; there earlier places count only, here later
    ones as well where a row may see them.

    >>> pattern = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    >>> duplicate_token(pattern, ids=torch.tensor([7, 7]))
    tensor([[0.6250]])
    """
    wide = check_self_attention(pattern)
    check_per_key("ids", ids, pattern)
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise DTypeError(f"ids must be integers, got {ids.dtype}")
    again = (ids[:, None] == ids).fill_diagonal_(False)
    again = again.tril() if causal else again
    rows = again.any(-1).sum()
    if not rows:
        raise ArgumentError("expected a token that occurs twice, got all different ones")
    query, key = again.nonzero(as_tuple=True)
    return pattern[..., query, key].sum(-1, dtype=wide) / rows
