"""Attention, computed here and nowhere else: scores, weights, z.

`reference_attention` is the mathematics in one breath; `attention` is the one that runs.
"""

import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.attention.checks import (
    Given,
    Number,
    check_dropout,
    check_extra,
    check_numbers,
    check_out,
    check_tensors,
    shape_of,
)
from mha_viz.core.attention.masks import additive_mask, fully_masked_rows, keyless_rows
from mha_viz.errors import ShapeError

# bool (True = may attend) or floats that are added to the scores
Mask = Given[
    Bool[Tensor, "*#batch #n_heads #query #key"] | Float[Tensor, "*#batch #n_heads #query #key"]
]


def reference_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute softmax(Q K^T / sqrt(d_head) + mask) V as written: what `attention` must agree with.

    Softcap, dropout, gates and sinks are left out; another scale is a factor on `query`.

    Source: Vaswani et al. 2017, eq. 1; shared key heads Ainslie et al. 2023.

    >>> z_, pattern = reference_attention(*torch.ones(3, 1, 2, 5), causal=True)
    >>> pattern
    tensor([[[1.0000, 0.0000],
             [0.5000, 0.5000]]])
    """
    group = query.shape[-3] // key.shape[-3]  # query heads that share a key head
    key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        scores = scores + torch.full_like(scores, -math.inf).triu(1)
    pattern = scores.softmax(-1).nan_to_num(0.0)  # a query that may attend to nothing
    return pattern @ value, pattern


def attention(
    query: Given[Float[Tensor, "*batch n_heads query d_head"]],
    key: Given[Float[Tensor, "*batch n_kv_heads key d_head"]],
    value: Given[Float[Tensor, "*batch n_kv_heads key d_value"]],
    mask: Mask | None = None,
    causal: bool = False,
    scale: Number | None = None,
    softcap: Number | None = None,
    **former: Any,
) -> tuple[
    Float[Tensor, "*batch n_heads query d_value"], Float[Tensor, "*batch n_heads query key"] | None
]:
    """Compute every query's weighted mean of the values, and the weights.

    pattern = softmax(scale * Q K^T + mask) row by row; z = pattern V.

    Args:
        query: (*batch, n_heads, query, d_head), float16 to float64; any number of batch axes.
        key: (*batch, n_kv_heads, key, d_head); n_kv_heads divides n_heads, and each key head
            serves n_heads / n_kv_heads neighbouring query heads.
        value: (*batch, n_kv_heads, key, d_value).
        mask: broadcastable to (*batch, n_heads, query, key); bool (True = may attend) or floats
            added to the scores. A float at or below half its dtype's lowest number forbids,
            as -inf does.
        causal: query i sees keys j <= i only, counted from the first query and the first key.
        scale: factor on Q K^T; 1 / sqrt(d_head) if not given.
        softcap: c > 0 bends the scores into (-c, c) by c * tanh(scores / c), before the mask.
        **former: dropout, need_pattern, gates, out and sinks, which this function took formerly;
            they warn. `weights`, `fused_z` and `z` do what they did.

    Returns:
        z (*batch, n_heads, query, d_value) and the pattern (*batch, n_heads, query, key). Pattern
        rows sum to 1; a query that may attend to nothing gets zeros in both. Both have the inputs'
        dtype; softmax is at least float32.

    Raises:
        ShapeError, DTypeError, ArgumentError: with what was expected and what came.

    Source: Vaswani et al. 2017, eq. 1; shared key heads Shazeer 2019 (MQA) and Ainslie et al.
    2023 (GQA); softcap Gemma Team 2024 (Gemma 2). Eq. 1 leaves a row of nothing open: libraries
    give it uniform weights or NaN, here it is zeros.

    >>> x = torch.eye(2).reshape(1, 2, 2)  # one head, two tokens
    >>> z_, pattern = attention(x, x, x, causal=True, scale=1.0)
    >>> pattern
    tensor([[[1.0000, 0.0000],
             [0.2689, 0.7311]]])
    """
    check_tensors(query, key, value, mask)
    check_numbers(scale, softcap)
    rule: dict[str, Any] = dict(mask=mask, causal=causal, scale=scale, softcap=softcap)
    if former:
        return _former_attention((query, key, value), rule, former)
    pattern = weights(query, key, **rule)
    return z(pattern, value), pattern


def weights(
    query: Float[Tensor, "*batch n_heads query d_head"],
    key: Float[Tensor, "*batch n_kv_heads key d_head"],
    mask: Mask | None = None,
    causal: bool = False,
    scale: Number | None = None,
    softcap: Number | None = None,
    sinks: Given[Float[Tensor, "n_heads"]] | None = None,
) -> Float[Tensor, "*batch n_heads query key"]:
    """Compute the pattern alone: softmax(scale * Q K^T + mask), row by row.

    Arguments are those of `attention`, which checks them; here they are taken as right. `sinks`
    are one more score for each head, which takes its share of every row's softmax and leads to no
    key: rows then sum to less than 1.

    Source: Vaswani et al. 2017, eq. 1; sinks OpenAI 2025 (gpt-oss).

    >>> weights(torch.zeros(1, 1, 3), torch.zeros(1, 2, 3))
    tensor([[[0.5000, 0.5000]]])
    """
    bias = additive_mask(mask, causal, query, key)
    raw = scores(query, key, mask=bias, scale=scale, softcap=softcap)
    return _with_sinks(raw, keyless_rows(bias, mask), sinks)


@torch.no_grad()
def write_weights(
    pattern: Float[Tensor, "*batch n_heads query key"],
    query: Float[Tensor, "*batch n_heads query d_head"],
    key: Float[Tensor, "*batch n_kv_heads key d_head"],
    mask: Mask | None = None,
    scale: Number | None = None,
    softcap: Number | None = None,
    sinks: Given[Float[Tensor, "n_heads"]] | None = None,
) -> None:
    """Write `weights` into a contiguous tensor of at least float32, and take no other memory.

    No gradient is recorded.

    >>> pattern = torch.empty(1, 1, 2)
    >>> write_weights(pattern, torch.zeros(1, 1, 3), torch.zeros(1, 2, 3))
    >>> pattern
    tensor([[[0.5000, 0.5000]]])
    """
    n_kv_heads = key.shape[-3]
    _fold(pattern, n_kv_heads).baddbmm_(
        _fold(query, n_kv_heads),
        _fold(key, n_kv_heads).transpose(1, 2),
        beta=0,
        alpha=_factor(query, scale, softcap),
    )
    if softcap is not None:
        pattern.tanh_().mul_(softcap)
    bias = additive_mask(mask, False, query, key)
    if bias is not None:
        pattern.add_(bias)
    _with_sinks(pattern, keyless_rows(bias, mask), sinks)


def fused_z(
    query: Float[Tensor, "*batch n_heads query d_head"],
    key: Float[Tensor, "*batch n_kv_heads key d_head"],
    value: Float[Tensor, "*batch n_kv_heads key d_value"],
    mask: Mask | None = None,
    causal: bool = False,
    scale: Number | None = None,
    dropout: Number = 0.0,
) -> Float[Tensor, "*batch n_heads query d_value"]:
    """Compute z by torch's own kernel, which holds no pattern.

    Arguments are those of `attention`, which checks them; `dropout` is the probability of dropping
    a weight on its way into z. A query that may attend to nothing gets zeros.

    >>> fused_z(torch.zeros(1, 1, 3), torch.zeros(1, 2, 3), torch.tensor([[[3.0], [5.0]]]))
    tensor([[[4.]]])
    """
    # causality alone masks no row fully: each sees key 0
    bias = None if mask is None else additive_mask(mask, causal, query, key)
    masked_rows = keyless_rows(bias, mask)
    causal = causal and bias is None
    if bias is not None:
        bias = bias if masked_rows is None else bias.masked_fill(masked_rows, 0.0)
        bias = bias.expand(*query.shape[:-1], key.shape[-2])
    shared = query.shape[-3] != key.shape[-3]
    mixed = F.scaled_dot_product_attention(
        query, key, value, bias, dropout, causal, scale=scale, enable_gqa=shared
    )
    return mixed if masked_rows is None else mixed.masked_fill(masked_rows, 0.0)


def scores(
    query: Float[Tensor, "*batch n_heads query d_head"],
    key: Float[Tensor, "*batch n_kv_heads key d_head"],
    *,
    mask: Mask | None = None,
    causal: bool = False,
    scale: Number | None = None,
    softcap: Number | None = None,
) -> Float[Tensor, "*batch n_heads query key"]:
    """Compute how well each query fits each key: scale * Q K^T, then softcap, then the mask.

    Arguments as in `attention`, which checks them; here they are taken as right. Returns real
    numbers (*batch, n_heads, query, key), -inf where a bool mask or `causal` forbids. Source:
    Vaswani et al. 2017, eq. 1.

    >>> scores(torch.tensor([[[2.0]]]), torch.tensor([[[3.0], [5.0]]]))
    tensor([[[ 6., 10.]]])
    """
    # baddbmm with beta=0 is a bmm whose scale costs no pass of its own
    raw = torch.baddbmm(
        query.new_empty(()),
        _fold(query, key.shape[-3]),
        _fold(key, key.shape[-3]).transpose(1, 2),
        beta=0,
        alpha=_factor(query, scale, softcap),
    ).view(*query.shape[:-1], key.shape[-2])
    if softcap is not None:
        raw = softcap * torch.tanh(raw)
    bias = additive_mask(mask, causal, query, key)
    return raw if bias is None else raw.add_(bias)


def softmax(
    scores: Float[Tensor, "*batch n_heads query key"],
) -> Float[Tensor, "*batch n_heads query key"]:
    """Normalise scores to the pattern: exp(scores) over its row's sum; zeros for rows of -inf.

    Accumulates in float32 at least and returns the dtype of `scores`.

    Source: Vaswani et al. 2017, eq. 1, which leaves a row of nothing undefined.

    >>> softmax(torch.tensor([[[0.0, 0.0], [-torch.inf, -torch.inf]]]))
    tensor([[[0.5000, 0.5000],
             [0.0000, 0.0000]]])
    """
    return _normalise(scores, fully_masked_rows(scores))


def z(
    pattern: Float[Tensor, "*batch n_heads query key"],
    value: Float[Tensor, "*batch n_kv_heads key d_value"],
) -> Float[Tensor, "*batch n_heads query d_value"]:
    """Compute each query's mean of the values, weighted by its row of the pattern.

    Source: Vaswani et al. 2017, eq. 1.

    >>> z(torch.tensor([[[0.25, 0.75]]]), torch.tensor([[[4.0], [8.0]]]))
    tensor([[[7.]]])
    """
    n_kv_heads = value.shape[-3]
    mixed = torch.bmm(_fold(pattern, n_kv_heads), _fold(value, n_kv_heads))
    return mixed.view(*pattern.shape[:-1], value.shape[-1])


# --- the parts underneath


def _fold(heads: Tensor, n_kv_heads: int) -> Tensor:
    """Reshape (*batch, n_heads, rows, width) to (batch * n_kv_heads, group * rows, width).

    The query heads that share a key head become rows of one matrix: no key is ever repeated.
    """
    group = heads.shape[-3] // n_kv_heads
    matrices = math.prod(heads.shape[:-2]) // group
    return heads.reshape(matrices, group * heads.shape[-2], heads.shape[-1])


def _factor(query: Tensor, scale: Number | None, softcap: Number | None) -> Number:
    """Return the factor on Q K^T: the scale, by the cap where the scores are bent."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return scale if softcap is None else scale / softcap


def _normalise(scores: Tensor, masked_rows: Tensor | None, overwrite: bool = False) -> Tensor:
    """Take the softmax over the keys; `overwrite` writes it into `scores`."""
    if masked_rows is not None and scores.requires_grad:
        scores = scores.masked_fill(masked_rows, 0.0)  # before, too: the gradient of 0 * NaN is NaN
    wide = torch.promote_types(scores.dtype, torch.float32)
    if overwrite and scores.dtype == wide:
        pattern = torch.softmax(scores, -1, out=scores)
    else:
        pattern = torch.softmax(scores, -1, dtype=wide).to(scores.dtype)
    if masked_rows is None:
        return pattern
    fill = pattern.masked_fill if pattern.requires_grad else pattern.masked_fill_
    return fill(masked_rows, 0.0)


def _with_sinks(scores: Tensor, masked_rows: Tensor | None, sinks: Tensor | None) -> Tensor:
    """Turn scores into the pattern; each head's sink takes its share."""
    key_share = None if sinks is None else _key_share(scores, sinks)
    pattern = _normalise(scores, masked_rows, overwrite=not scores.requires_grad)
    if key_share is None:
        return pattern
    is_recorded = pattern.requires_grad or key_share.requires_grad
    return pattern * key_share if is_recorded else pattern.mul_(key_share)


def _key_share(scores: Tensor, sinks: Tensor) -> Tensor:
    """Return the share that a head's sink leaves to the keys of each row, (..., query, 1)."""
    if sinks.shape != scores.shape[-3:-2]:
        raise ShapeError(
            f"sinks must be ({scores.shape[-3]},), one for each head, got {tuple(sinks.shape)}"
        )
    total = torch.logsumexp(scores, -1, keepdim=True)
    return torch.sigmoid(total - sinks.to(total)[:, None, None])


def _former_attention(
    inputs: tuple[Tensor, Tensor, Tensor], rule: dict[str, Any], former: dict[str, Any]
) -> tuple[Tensor, Tensor | None]:
    """Compute `attention` with arguments that it took formerly."""
    options: dict[str, Any] = dict(dropout=0.0, need_pattern=True, gates=None, out=None, sinks=None)
    if unknown := sorted(former.keys() - options.keys()):
        raise TypeError(f"attention() got an unexpected keyword argument {unknown[0]!r}")
    names = ", ".join(former)
    message = f"attention({names}=...) is deprecated: use weights, fused_z and z of {__name__}."
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    query, key, value = inputs
    dropout, need_pattern, gates, out, sinks = (options | former).values()
    check_dropout(dropout)
    pattern = None
    if need_pattern or rule["softcap"] is not None or sinks is not None:
        pattern = weights(query, key, **rule, sinks=sinks)
        pattern = pattern if out is None else check_out(out, query, key).copy_(pattern)
        mixed = z(F.dropout(pattern, dropout) if dropout else pattern, value)
    else:
        mixed = fused_z(*inputs, rule["mask"], rule["causal"], rule["scale"], dropout)
    if gates is not None:
        check_extra("gates", gates, shape_of(query)[:-2], query.device)
        mixed = mixed * gates.to(mixed.dtype)[..., None, None]
    return mixed, pattern if need_pattern else None
