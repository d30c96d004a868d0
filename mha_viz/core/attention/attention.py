"""Attention, computed here and nowhere else: scores, pattern, z.

`reference_attention` is the mathematics in one breath; `attention` is the one that runs.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.attention.checks import Given, Number, check_numbers, check_out, check_tensors
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
    dropout: Number = 0.0,
    need_pattern: bool = True,
    gates: Given[Float[Tensor, "*#batch #n_heads"]] | None = None,
    out: Given[Float[Tensor, "*batch n_heads query key"]] | None = None,
    sinks: Given[Float[Tensor, "n_heads"]] | None = None,
) -> tuple[
    Float[Tensor, "*batch n_heads query d_value"], Float[Tensor, "*batch n_heads query key"] | None
]:
    """Compute every query's weighted mean of the values, and the weights.

    pattern = softmax(scale * Q K^T + mask) row by row; z = gates * (pattern V).

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
        dropout: probability in [0, 1] of dropping a weight on its way into z.
        need_pattern: False takes torch's fused kernel and leaves the pattern out.
        gates: factor on each head's z, broadcastable to (*batch, n_heads).
        out: contiguous (*batch, n_heads, query, key) of the inputs' dtype that takes the pattern
            (scores on the way to it) and is returned as it; not where gradients are taken.
        sinks: one more score for each head, which takes its share of every row's softmax and leads
            to no key: rows then sum to less than 1.

    Returns:
        z (*batch, n_heads, query, d_value) and the pattern before dropout
        (*batch, n_heads, query, key), or None. Pattern rows sum to 1; a query that may attend to
        nothing gets zeros in both. Both have the inputs' dtype; softmax is at least float32.

    Raises:
        ShapeError, DTypeError, ArgumentError: with what was expected and what came.

    Source: Vaswani et al. 2017, eq. 1; shared key heads Shazeer 2019 (MQA) and Ainslie et al.
    2023 (GQA); softcap Gemma Team 2024 (Gemma 2); sinks OpenAI 2025 (gpt-oss). Eq. 1 leaves a row
    of nothing open: libraries give it uniform weights or NaN, here it is zeros.

    >>> x = torch.eye(2).reshape(1, 2, 2)  # one head, two tokens
    >>> z_, pattern = attention(x, x, x, causal=True, scale=1.0)
    >>> pattern
    tensor([[[1.0000, 0.0000],
             [0.2689, 0.7311]]])
    """
    check_tensors(query, key, value, mask, gates)
    if out is not None:
        check_out(out, query, key)
    check_numbers(scale, softcap, dropout)
    bias = None if mask is None else _additive(mask, causal, query, key)
    # causality alone masks no row fully: each sees key 0
    masked_rows = None if bias is None else _fully_masked_rows(bias)
    causal = causal and bias is None
    pattern = None
    if need_pattern or softcap is not None or sinks is not None:
        raw = scores(query, key, mask=bias, causal=causal, scale=scale, softcap=softcap, out=out)
        pattern = _with_sinks(raw, masked_rows, sinks)
        if out is not None and pattern.data_ptr() != out.data_ptr():
            pattern = out.copy_(pattern)  # half precision and what sinks leave are made elsewhere
        mixed = z(F.dropout(pattern, dropout) if dropout else pattern, value)
    else:
        mixed = _fused(query, key, value, bias, masked_rows, causal, scale, dropout)
    if gates is not None:
        mixed = mixed * gates.to(mixed.dtype)[..., None, None]
    return mixed, pattern if need_pattern else None


def scores(
    query: Float[Tensor, "*batch n_heads query d_head"],
    key: Float[Tensor, "*batch n_kv_heads key d_head"],
    *,
    mask: Mask | None = None,
    causal: bool = False,
    scale: Number | None = None,
    softcap: Number | None = None,
    out: Given[Float[Tensor, "*batch n_heads query key"]] | None = None,
) -> Float[Tensor, "*batch n_heads query key"]:
    """Compute how well each query fits each key: scale * Q K^T, then softcap, then the mask.

    Arguments as in `attention`, which checks them; here they are taken as right. Returns real
    numbers (*batch, n_heads, query, key), -inf where a bool mask or `causal` forbids. Source:
    Vaswani et al. 2017, eq. 1.

    >>> scores(torch.tensor([[[2.0]]]), torch.tensor([[[3.0], [5.0]]]))
    tensor([[[ 6., 10.]]])
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    # baddbmm with beta=0 is a bmm whose scale costs no pass of its own
    raw = torch.baddbmm(
        query.new_empty(()),
        _fold(query, key.shape[-3]),
        _fold(key, key.shape[-3]).transpose(1, 2),
        beta=0,
        alpha=scale if softcap is None else scale / softcap,
        out=None if out is None else _fold(out, key.shape[-3]),
    ).view(*query.shape[:-1], key.shape[-2])
    if softcap is not None:
        raw = softcap * torch.tanh(raw) if out is None else raw.tanh_().mul_(softcap)
    bias = _additive(mask, causal, query, key)
    return raw if bias is None else raw.add_(bias)


def pattern_of(
    query: Float[Tensor, "*batch n_heads query d_head"],
    key: Float[Tensor, "*batch n_kv_heads key d_head"],
    *,
    mask: Mask | None = None,
    scale: Number | None = None,
    softcap: Number | None = None,
    sinks: Given[Float[Tensor, "n_heads"]] | None = None,
) -> Float[Tensor, "*batch n_heads query key"]:
    """Compute the pattern alone: what `attention` returns as such, of arguments taken as right.

    >>> pattern_of(torch.zeros(1, 1, 3), torch.zeros(1, 2, 3))
    tensor([[[0.5000, 0.5000]]])
    """
    bias = None if mask is None else _additive(mask, False, query, key)
    masked_rows = None if bias is None else _fully_masked_rows(bias)
    raw = scores(query, key, mask=bias, scale=scale, softcap=softcap)
    return _with_sinks(raw, masked_rows, sinks)


def visible(bias: Tensor) -> Bool[Tensor, "..."]:
    """Return which keys a query may see, by what was added to its scores.

    `bias` is mask and position bias, of any shape: bool (True = may attend), or floats of which
    those near their dtype's lowest forbid.
    """
    return bias if bias.dtype == torch.bool else bias > _forbidding(bias.dtype)


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
    return _normalise(scores, _fully_masked_rows(scores))


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


def _additive(mask: Tensor | None, causal: bool, query: Tensor, key: Tensor) -> Tensor | None:
    """Return mask and causality as one tensor to be added to the scores, or None."""
    bias = None
    if mask is not None and mask.dtype == torch.bool:
        bias = query.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)
    elif mask is not None and mask.dtype != query.dtype:
        # forbidding is relative to the mask's own dtype, and has to survive the conversion
        forbidden = mask <= _forbidding(mask.dtype)
        bias = mask.to(query.dtype).masked_fill(forbidden, -torch.inf)
    elif mask is not None:
        bias = mask
    if causal:
        future = query.new_full((query.shape[-2], key.shape[-2]), -torch.inf).triu(1)
        bias = future if bias is None else bias + future
    return bias


def _forbidding(dtype: torch.dtype) -> float:
    """Return the number at or below which an additive mask means "may not attend".

    Model libraries write finfo.min for -inf, and may have added a position bias to it.
    """
    return torch.finfo(dtype).min / 2


def _fully_masked_rows(additive: Tensor) -> Bool[Tensor, "..."] | None:
    """Return which rows allow no key (..., query, 1); None if none is so.

    On a graphics card nothing is read back: every layer would have to wait for it.
    """
    best = additive.detach().amax(-1, keepdim=True)
    masked_rows = best <= _forbidding(additive.dtype)
    is_on_cpu = masked_rows.device.type == "cpu"
    return None if is_on_cpu and not masked_rows.any() else masked_rows


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
    """Turn scores into the pattern, of which each head's sink takes its share."""
    key_share = None if sinks is None else _key_share(scores, sinks)
    pattern = _normalise(scores, masked_rows, overwrite=not scores.requires_grad)
    return pattern if key_share is None else pattern * key_share


def _key_share(scores: Tensor, sinks: Tensor) -> Tensor:
    """Return the share that a head's sink leaves to the keys of each row, (..., query, 1)."""
    if sinks.shape != scores.shape[-3:-2]:
        raise ShapeError(
            f"sinks must be ({scores.shape[-3]},), one for each head, got {tuple(sinks.shape)}"
        )
    total = torch.logsumexp(scores, -1, keepdim=True)
    return torch.sigmoid(total - sinks.to(total)[:, None, None])


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    masked_rows: Tensor | None,
    causal: bool,
    scale: Number | None,
    dropout: Number,
) -> Tensor:
    """Compute z by torch's own kernel, which leaves open what a fully masked row gives."""
    if bias is not None:
        bias = bias if masked_rows is None else bias.masked_fill(masked_rows, 0.0)
        bias = bias.expand(*query.shape[:-1], key.shape[-2])
    shared = query.shape[-3] != key.shape[-3]
    mixed = F.scaled_dot_product_attention(
        query, key, value, bias, dropout, causal, scale=scale, enable_gqa=shared
    )
    return mixed if masked_rows is None else mixed.masked_fill(masked_rows, 0.0)
