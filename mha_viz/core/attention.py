"""The only place where attention is computed: scores, pattern, z, and the module built of them.

Knows torch and nothing else; must not know any model library, record or screen.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from mha_viz.errors import ArgumentError, DTypeError, ShapeError

Number = float | int
Anything = Shaped[Tensor, "..."]  # a tensor whose shape and dtype we check ourselves, in our words


def attention(
    query: Anything,
    key: Anything,
    value: Anything,
    mask: Anything | None = None,
    causal: bool = False,
    scale: Number | None = None,
    softcap: Number | None = None,
    dropout: Number = 0.0,
    need_pattern: bool = True,
    gates: Anything | None = None,
) -> tuple[
    Float[Tensor, "*batch n_heads query d_value"],
    Float[Tensor, "*batch n_heads query key"] | None,
]:
    """Every query's weighted mean of the values, and the weights.

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

    Returns:
        z (*batch, n_heads, query, d_value) and the pattern before dropout
        (*batch, n_heads, query, key), or None. Pattern rows sum to 1; a query that may attend to
        nothing gets zeros in both. Both have the inputs' dtype; softmax is at least float32.

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
    _check_tensors(query, key, value, mask, gates)
    _check_numbers(scale, softcap, dropout)
    bias = None if mask is None else _additive(mask, causal, query, key)
    blind = None if bias is None else _blind_rows(bias)  # a causal row alone always sees key 0
    causal = causal and bias is None
    pattern = None
    if need_pattern or softcap is not None:
        raw = scores(query, key, mask=bias, causal=causal, scale=scale, softcap=softcap)
        pattern = _normalise(raw, blind, overwrite=not raw.requires_grad)
        mixed = z(F.dropout(pattern, dropout) if dropout else pattern, value)
    else:
        mixed = _fused(query, key, value, bias, blind, causal, scale, dropout)
    if gates is not None:
        mixed = mixed * gates.to(mixed.dtype)[..., None, None]
    return mixed, pattern if need_pattern else None


def scores(
    query: Float[Tensor, "*batch n_heads query d_head"],
    key: Float[Tensor, "*batch n_kv_heads key d_head"],
    *,
    mask: Anything | None = None,
    causal: bool = False,
    scale: Number | None = None,
    softcap: Number | None = None,
) -> Float[Tensor, "*batch n_heads query key"]:
    """How well each query fits each key: scale * Q K^T, then softcap, then the mask added.

    Arguments as in `attention`, which checks them; here they are taken as right. Returns real
    numbers (*batch, n_heads, query, key), -inf where a bool mask or `causal` forbids.

    Source: Vaswani et al. 2017, eq. 1.

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
    ).view(*query.shape[:-1], key.shape[-2])
    if softcap is not None:
        raw = softcap * torch.tanh(raw)
    bias = _additive(mask, causal, query, key)
    return raw if bias is None else raw.add_(bias)


def softmax(
    scores: Float[Tensor, "*batch n_heads query key"],
) -> Float[Tensor, "*batch n_heads query key"]:
    """The pattern: exp(scores) over its row's sum, in [0, 1]; a row of only -inf gives zeros.

    Accumulates in float32 at least and returns the dtype of `scores`.

    Source: Vaswani et al. 2017, eq. 1, which leaves a row of nothing undefined.

    >>> softmax(torch.tensor([[[0.0, 0.0], [-torch.inf, -torch.inf]]]))
    tensor([[[0.5000, 0.5000],
             [0.0000, 0.0000]]])
    """
    return _normalise(scores, _blind_rows(scores))


def z(
    pattern: Float[Tensor, "*batch n_heads query key"],
    value: Float[Tensor, "*batch n_kv_heads key d_value"],
) -> Float[Tensor, "*batch n_heads query d_value"]:
    """Each query's mean of the values, weighted by its row of the pattern.

    Source: Vaswani et al. 2017, eq. 1.

    >>> z(torch.tensor([[[0.25, 0.75]]]), torch.tensor([[[4.0], [8.0]]]))
    tensor([[[7.]]])
    """
    n_kv_heads = value.shape[-3]
    mixed = torch.bmm(_fold(pattern, n_kv_heads), _fold(value, n_kv_heads))
    return mixed.view(*pattern.shape[:-1], value.shape[-1])


class AttentionOutput(NamedTuple):
    """What `MultiHeadAttention` returns; pattern and scores are None where they were not needed."""

    output: Float[Tensor, "*batch query d_model"]
    pattern: Float[Tensor, "*batch n_heads query key"] | None
    scores: Float[Tensor, "*batch n_heads query key"] | None
    z: Float[Tensor, "*batch n_heads query d_value"]


@dataclass(frozen=True)
class AttentionWeights:
    """One attention layer's parameters, head by head; a bias the layer lacks is None.

    Args:
        W_Q: (n_heads, d_model, d_head); W_K: (n_kv_heads, d_model, d_head);
        W_V: (n_kv_heads, d_model, d_value); W_O: (n_heads, d_value, d_model). In cross-attention
            W_K and W_V may read tokens of another width than d_model.
        b_Q, b_K, b_V: (heads, width) as their weight has them; b_O: (d_model,).
        scale: factor on Q K^T; None means 1 / sqrt(d_head).

    Raises:
        ShapeError, DTypeError: if the parts do not fit each other.

    >>> weights = AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
    >>> weights.W_O.shape
    torch.Size([2, 3, 4])
    """

    W_Q: Anything
    W_K: Anything
    W_V: Anything
    W_O: Anything
    b_Q: Anything | None = None
    b_K: Anything | None = None
    b_V: Anything | None = None
    b_O: Anything | None = None
    scale: Number | None = None

    def __post_init__(self) -> None:
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            if (weight := getattr(self, name)).ndim != 3:
                raise ShapeError(f"{name} must be (head, in, out), got {_shape(weight)}")
        (n_heads, d_model, d_head), (n_kv_heads, d_key_in, _) = self.W_Q.shape, self.W_K.shape
        _, d_value_in, d_value = self.W_V.shape
        _check_groups(n_heads, n_kv_heads)
        expected = {
            "W_Q": (n_heads, d_model, d_head),
            "W_K": (n_kv_heads, d_key_in, d_head),
            "W_V": (n_kv_heads, d_value_in, d_value),
            "W_O": (n_heads, d_value, d_model),
            "b_Q": (n_heads, d_head),
            "b_K": (n_kv_heads, d_head),
            "b_V": (n_kv_heads, d_value),
            "b_O": (d_model,),
        }
        given = {name: getattr(self, name) for name in expected if getattr(self, name) is not None}
        for name, part in given.items():
            if _shape(part) != expected[name]:
                raise ShapeError(f"{name} must be {expected[name]}, got {_shape(part)}")
        _check_alike(given)


@runtime_checkable
class HasAttentionWeights(Protocol):
    """A loaded model that can hand out one layer's parameters."""

    def attention_weights(self, layer: int) -> AttentionWeights: ...


class MultiHeadAttention(nn.Module):
    """Attention with n_heads heads, each reading and writing d_model-wide tokens.

    head_i = softmax(scale * (x W_Q_i)(y W_K_i)^T) (y W_V_i); output = sum_i head_i W_O_i + b_O.

    Args:
        d_model: width of the query tokens and of the output.
        n_heads: query heads.
        n_kv_heads: key and value heads, a divisor of n_heads; n_heads (MHA) if not given, 1 is MQA.
        d_head: width of a head's queries and keys; d_model / n_heads if not given.
        bias: whether the four projections add b_Q, b_K, b_V, b_O.
        dropout: probability in [0, 1] of dropping an attention weight, in training only.
        d_value: width of a head's values; d_head if not given.
        d_key_in, d_value_in: width of the key and value tokens; d_model if not given.
        scale, softcap: as in `attention`.

    Raises:
        ShapeError, ArgumentError: for sizes that are not positive or do not divide.

    Source: Vaswani et al. 2017, section 3.2.2, with W_O cut into one slice per head.

    >>> mha = MultiHeadAttention(d_model=6, n_heads=3)
    >>> out = mha(torch.ones(5, 6), causal=True)
    >>> out.output.shape, out.pattern.shape
    (torch.Size([5, 6]), torch.Size([3, 5, 5]))
    """

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    b_Q: Tensor | None
    b_K: Tensor | None
    b_V: Tensor | None
    b_O: Tensor | None

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = True,
        dropout: Number = 0.0,
        *,
        d_value: int | None = None,
        d_key_in: int | None = None,
        d_value_in: int | None = None,
        scale: Number | None = None,
        softcap: Number | None = None,
    ) -> None:
        super().__init__()
        _check_numbers(scale, softcap, dropout)
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        _check_groups(n_heads, n_kv_heads)
        if d_head is None and d_model % n_heads:
            raise ShapeError(f"n_heads must divide d_model, got {n_heads} and {d_model}")
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.d_head = d_model // n_heads if d_head is None else d_head
        self.d_value = self.d_head if d_value is None else d_value
        self.scale, self.softcap, self.dropout = scale, softcap, dropout
        d_key_in = d_model if d_key_in is None else d_key_in
        d_value_in = d_model if d_value_in is None else d_value_in
        self._register("Q", n_heads, d_model, self.d_head, bias)
        self._register("K", n_kv_heads, d_key_in, self.d_head, bias)
        self._register("V", n_kv_heads, d_value_in, self.d_value, bias)
        self._register("O", n_heads, self.d_value, d_model, bias)

    def _register(self, letter: str, n_heads: int, d_in: int, d_out: int, bias: bool) -> None:
        """W and b of one projection, Xavier as if the heads were one matrix; b starts at 0."""
        if min(d_in, d_out) < 1:
            raise ArgumentError(f"widths must be at least 1, got {d_in} and {d_out} for W_{letter}")
        joined = d_in * n_heads + d_out if letter == "O" else d_in + n_heads * d_out
        bound = math.sqrt(6 / joined)
        weight = nn.Parameter(torch.empty(n_heads, d_in, d_out).uniform_(-bound, bound))
        zeros = nn.Parameter(torch.zeros((d_out,) if letter == "O" else (n_heads, d_out)))
        self.register_parameter(f"W_{letter}", weight)
        self.register_parameter(f"b_{letter}", zeros if bias else None)

    def forward(
        self,
        query: Anything,
        key: Anything | None = None,
        value: Anything | None = None,
        *,
        mask: Anything | None = None,
        causal: bool = False,
        need_pattern: bool = True,
    ) -> AttentionOutput:
        """Attend from the query tokens to the key tokens and gather the value tokens.

        Args:
            query: (*batch, query, d_model).
            key: (*batch, key, d_key_in); the query tokens (self-attention) if not given.
            value: (*batch, key, d_value_in); the key tokens if not given.
            mask, causal, need_pattern: as in `attention`.

        Returns:
            output (*batch, query, d_model), pattern and scores (*batch, n_heads, query, key) or
            None, z (*batch, n_heads, query, d_value).

        Raises:
            ShapeError, DTypeError, ArgumentError: with what was expected and what came.
        """
        key = query if key is None else key
        value = key if value is None else value
        # project and split: one slice of each W per head
        q = _project("query", query, self.W_Q, self.b_Q)
        k = _project("key", key, self.W_K, self.b_K)
        v = _project("value", value, self.W_V, self.b_V)
        # attend
        raw = pattern = None
        if need_pattern:
            _check_tensors(q, k, v, mask, None)
            raw = scores(q, k, mask=mask, causal=causal, scale=self.scale, softcap=self.softcap)
            pattern = softmax(raw)
            mixed = z(F.dropout(pattern, self.dropout, self.training), v)
        else:
            dropout = self.dropout if self.training else 0.0
            mixed, _ = attention(q, k, v, mask, causal, self.scale, self.softcap, dropout, False)
        # concatenate and project: summing each head's part of W_O is the same in one step
        output = torch.einsum("...hqd,hdm->...qm", mixed, self.W_O)
        output = output if self.b_O is None else output + self.b_O
        return AttentionOutput(output, pattern, raw, mixed)

    def head_output(
        self, z: Float[Tensor, "*batch n_heads query d_value"]
    ) -> Float[Tensor, "*batch n_heads query d_model"]:
        """What each head writes: its z times its slice of W_O. Over heads, plus b_O: the output.

        Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".

        >>> mha = MultiHeadAttention(d_model=6, n_heads=3)
        >>> mha.head_output(torch.ones(3, 5, 2)).shape
        torch.Size([3, 5, 6])
        """
        return torch.einsum("...hqd,hdm->...hqm", z, self.W_O)

    @classmethod
    def from_weights(
        cls, weights: AttentionWeights, *, dropout: Number = 0.0
    ) -> "MultiHeadAttention":
        """A module that computes with a copy of these parameters.

        >>> ones = AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
        >>> MultiHeadAttention.from_weights(ones).d_head
        3
        """
        n_heads, d_model, d_head = weights.W_Q.shape
        n_kv_heads, d_key_in, _ = weights.W_K.shape
        _, d_value_in, d_value = weights.W_V.shape
        mha = cls(
            *(d_model, n_heads, n_kv_heads, d_head),
            dropout=dropout,
            d_value=d_value,
            d_key_in=d_key_in,
            d_value_in=d_value_in,
            scale=weights.scale,
        )
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
            part = getattr(weights, name)
            setattr(mha, name, None if part is None else nn.Parameter(part.detach().clone()))
        return mha

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """A copy of torch's module. Ours is batch first always and keeps the heads apart.

        Raises:
            ArgumentError: for `add_bias_kv` and `add_zero_attn`, which have no counterpart here.

        >>> MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(6, 3)).W_Q.shape
        torch.Size([3, 6, 2])
        """
        if module.bias_k is not None or module.add_zero_attn:
            raise ArgumentError("expected a module without add_bias_kv and add_zero_attn")
        own = dict(module.named_parameters())
        if "in_proj_weight" in own:
            matrices = list(own["in_proj_weight"].chunk(3))
        else:
            matrices = [own["q_proj_weight"], own["k_proj_weight"], own["v_proj_weight"]]
        heads, width = module.num_heads, module.head_dim
        # torch's matrices are (out, in), with the heads one after another in `out`
        q, k, v = (w.view(heads, width, -1).transpose(1, 2) for w in matrices)
        out = module.out_proj.weight.T.reshape(heads, width, -1)
        packed, b_o = own.get("in_proj_bias"), own.get("out_proj.bias")
        b_q, b_k, b_v = (None,) * 3 if packed is None else packed.view(3, heads, width)
        weights = AttentionWeights(q, k, v, out, b_q, b_k, b_v, b_o)
        return cls.from_weights(weights, dropout=module.dropout).train(module.training)

    @classmethod
    def from_layer(cls, model: HasAttentionWeights, layer: int) -> "MultiHeadAttention":
        """A copy of one layer's attention in a loaded model, in eval mode.

        The projections and the scale only: what a model adds between them (rotary positions, a
        position bias) is not part of the module.

        >>> class Model:
        ...     def attention_weights(self, layer):
        ...         return AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
        >>> MultiHeadAttention.from_layer(Model(), layer=0).n_heads
        2
        """
        return cls.from_weights(model.attention_weights(layer)).eval()


# --- the parts underneath


def _fold(heads: Tensor, n_kv_heads: int) -> Tensor:
    """(*batch, n_heads, rows, width) to (batch * n_kv_heads, group * rows, width).

    The query heads that share a key head become rows of one matrix: no key is ever repeated.
    """
    group = heads.shape[-3] // n_kv_heads
    matrices = math.prod(heads.shape[:-2]) // group
    return heads.reshape(matrices, group * heads.shape[-2], heads.shape[-1])


def _additive(mask: Tensor | None, causal: bool, query: Tensor, key: Tensor) -> Tensor | None:
    """Mask and causality as one tensor to be added to the scores, or None."""
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
    """The number at or below which an additive mask means 'may not attend'.

    Model libraries write finfo.min for -inf, and may have added a position bias to it.
    """
    return torch.finfo(dtype).min / 2


def _blind_rows(additive: Tensor) -> Bool[Tensor, "..."] | None:
    """Which rows of a mask or of masked scores allow no key (..., query, 1); None if none is so."""
    best = additive.detach().amax(-1, keepdim=True)
    blind = best <= _forbidding(additive.dtype)
    return blind if blind.any() else None


def _normalise(scores: Tensor, blind: Tensor | None, overwrite: bool = False) -> Tensor:
    """Softmax over the keys, zeros in blind rows; `overwrite` writes it into `scores`."""
    if blind is not None:  # before as well as after: the gradient of 0 * NaN is NaN
        scores = scores.masked_fill(blind, 0.0)
    wide = torch.promote_types(scores.dtype, torch.float32)
    if overwrite and scores.dtype == wide:
        pattern = torch.softmax(scores, -1, out=scores)
    else:
        pattern = torch.softmax(scores, -1, dtype=wide).to(scores.dtype)
    return pattern if blind is None else pattern.masked_fill(blind, 0.0)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    blind: Tensor | None,
    causal: bool,
    scale: Number | None,
    dropout: Number,
) -> Tensor:
    """z by torch's own kernel, which leaves open what a blind row gives."""
    if bias is not None:
        bias = bias if blind is None else bias.masked_fill(blind, 0.0)
        bias = bias.expand(*query.shape[:-1], key.shape[-2])
    shared = query.shape[-3] != key.shape[-3]
    mixed = F.scaled_dot_product_attention(
        query, key, value, bias, dropout, causal, scale=scale, enable_gqa=shared
    )
    return mixed if blind is None else mixed.masked_fill(blind, 0.0)


def _project(name: str, tokens: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(*batch, token, d_in) to (*batch, head, token, width)."""
    if tokens.ndim < 2 or tokens.shape[-1] != weight.shape[1]:
        raise ShapeError(f"{name} must be (*batch, token, {weight.shape[1]}), got {_shape(tokens)}")
    _check_alike({name: tokens, "the weights": weight})
    heads = torch.einsum("...td,hdw->...htw", tokens, weight)
    return heads if bias is None else heads + bias[:, None, :]


# --- what can be wrong with an input


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _check_tensors(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, gates: Tensor | None
) -> None:
    tensors = {"query": query, "key": key, "value": value}
    _check_alike(tensors)
    for name, tensor in tensors.items():
        if tensor.ndim < 3 or 0 in tensor.shape[-2:]:
            expected = "(*batch, head, token, width) with a token and a width at least"
            raise ShapeError(f"{name} must be {expected}, got {_shape(tensor)}")
    fault = None
    if not query.shape[:-3] == key.shape[:-3] == value.shape[:-3]:
        fault = "query, key and value must have the same batch axes"
    elif query.shape[-1] != key.shape[-1]:
        fault = "query and key must have the same width d_head"
    elif key.shape[-3:-1] != value.shape[-3:-1]:
        fault = "key and value must have the same heads and tokens"
    if fault:
        got = ", ".join(f"{name} {_shape(tensor)}" for name, tensor in tensors.items())
        raise ShapeError(f"{fault}, got {got}")
    _check_groups(query.shape[-3], key.shape[-3])
    if mask is not None:
        _check_extra("mask", mask, (*query.shape[:-1], key.shape[-2]), query.device)
    if gates is not None:
        _check_extra("gates", gates, _shape(query)[:-2], query.device)


def _check_extra(name: str, extra: Tensor, target: tuple[int, ...], device: torch.device) -> None:
    """A mask or gates: the right kind, on the device, and stretching to `target`."""
    if not extra.is_floating_point() and (name, extra.dtype) != ("mask", torch.bool):
        kinds = "bool (True = may attend) or floating point" if name == "mask" else "floating point"
        raise DTypeError(f"{name} must be {kinds}, got {extra.dtype}")
    if extra.device != device:
        raise ArgumentError(f"{name} must be on the query's device {device}, got {extra.device}")
    pairs = zip(reversed(extra.shape), reversed(target), strict=False)
    if extra.ndim > len(target) or any(have not in (1, want) for have, want in pairs):
        raise ShapeError(f"{name} must broadcast to {target}, got {_shape(extra)}")


def _check_alike(tensors: dict[str, Tensor]) -> None:
    """All floating point, of one dtype, on one device."""
    (first_name, first), *_ = tensors.items()
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise DTypeError(f"{name} must be floating point, got {tensor.dtype}")
        if tensor.dtype != first.dtype:
            raise DTypeError(f"{name} must be {first.dtype} as {first_name} is, got {tensor.dtype}")
        if tensor.device != first.device:
            place = f"on {first.device} as {first_name} is"
            raise ArgumentError(f"{name} must be {place}, got {tensor.device}")


def _check_groups(n_heads: int, n_kv_heads: int) -> None:
    if n_heads < 1 or n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ShapeError(f"n_kv_heads must divide n_heads, got {n_kv_heads} and {n_heads}")


def _check_numbers(scale: Number | None, softcap: Number | None, dropout: Number) -> None:
    if scale is not None and not math.isfinite(scale):
        raise ArgumentError(f"scale must be finite, got {scale}")
    if softcap is not None and not (softcap > 0 and math.isfinite(softcap)):
        raise ArgumentError(f"softcap must be a positive number, got {softcap}")
    if not 0 <= dropout <= 1:
        raise ArgumentError(f"dropout must be in [0, 1], got {dropout}")
