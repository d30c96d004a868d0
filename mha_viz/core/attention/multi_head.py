"""Multi-head attention as a module: the projections around `attention`, one slice per head."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.core.attention.checks import (
    Given,
    Number,
    check_alike,
    check_dropout,
    check_groups,
    check_numbers,
    check_tensors,
    shape_of,
)
from mha_viz.core.attention.dot_product import Mask, fused_z, scores, softmax, z
from mha_viz.core.names import MATRICES
from mha_viz.core.reprs import shape_text
from mha_viz.errors import ArgumentError, ShapeError


class AttentionOutput(NamedTuple):
    """The output of `MultiHeadAttention`; pattern and scores are None where not needed.

    Args:
        output: (*batch, query, d_model), the sum over heads plus b_O.
        pattern: (*batch, n_heads, query, key), the weights; rows sum to 1.
        scores: (*batch, n_heads, query, key), before softmax.
        z: (*batch, n_heads, query, d_value), pattern times values.

    >>> import mha_viz as mv
    >>> output = mv.MultiHeadAttention(d_model=6, n_heads=3)(torch.ones(5, 6))
    >>> output.z.shape, output.scores.shape
    (torch.Size([3, 5, 2]), torch.Size([3, 5, 5]))
    """

    output: Float[Tensor, "*batch query d_model"]
    pattern: Float[Tensor, "*batch n_heads query key"] | None
    scores: Float[Tensor, "*batch n_heads query key"] | None
    z: Float[Tensor, "*batch n_heads query d_value"]

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {shape_text(part)}" for name, part in self._asdict().items())
        return f"AttentionOutput({parts})"


@dataclass(frozen=True)
class AttentionWeights:
    """One attention layer's parameters, head by head; a bias the layer lacks is None.

    In cross-attention W_K and W_V may read tokens of another width than d_model. Raises ShapeError,
    DTypeError: if the parts do not fit each other.

    >>> weights = AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
    >>> weights.W_O.shape
    torch.Size([2, 3, 4])
    """

    W_Q: Given[Float[Tensor, "n_heads d_model d_head"]]
    W_K: Given[Float[Tensor, "n_kv_heads d_key_in d_head"]]
    W_V: Given[Float[Tensor, "n_kv_heads d_value_in d_value"]]
    W_O: Given[Float[Tensor, "n_heads d_value d_model"]]
    b_Q: Given[Float[Tensor, "n_heads d_head"]] | None = None
    b_K: Given[Float[Tensor, "n_kv_heads d_head"]] | None = None
    b_V: Given[Float[Tensor, "n_kv_heads d_value"]] | None = None
    b_O: Given[Float[Tensor, "d_model"]] | None = None
    scale: Number | None = None  # factor on Q K^T; None means 1 / sqrt(d_head)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {shape_text(getattr(self, name))}" for name in MATRICES)
        return f"AttentionWeights({parts})"

    def __post_init__(self) -> None:
        for name in MATRICES:
            if (weight := getattr(self, name)).ndim != 3:
                raise ShapeError(f"{name} must be (head, in, out), got {shape_of(weight)}")
        (n_heads, d_model, d_head), (n_kv_heads, d_key_in, _) = self.W_Q.shape, self.W_K.shape
        _, d_value_in, d_value = self.W_V.shape
        check_groups(n_heads, n_kv_heads)
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
        parts = {name: getattr(self, name) for name in expected if getattr(self, name) is not None}
        for name, part in parts.items():
            if shape_of(part) != expected[name]:
                raise ShapeError(f"{name} must be {expected[name]}, got {shape_of(part)}")
        check_alike(parts)


@runtime_checkable
class HasAttentionWeights(Protocol):
    """A loaded model that can hand out one layer's parameters."""

    def attention_weights(self, layer: int) -> AttentionWeights:
        """Return the parameters of one layer, counted from 0."""
        ...


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
        check_numbers(scale, softcap)
        check_dropout(dropout)
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_groups(n_heads, n_kv_heads)
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
        """Add W (Xavier, as if the heads were one matrix) and b (zeros) of a projection."""
        if min(d_in, d_out) < 1:
            raise ArgumentError(f"widths must be at least 1, got {d_in} and {d_out} for W_{letter}")
        joined = d_in * n_heads + d_out if letter == "O" else d_in + n_heads * d_out
        bound = math.sqrt(6 / joined)
        weight = nn.Parameter(torch.empty(n_heads, d_in, d_out).uniform_(-bound, bound))
        zeros = nn.Parameter(torch.zeros((d_out,) if letter == "O" else (n_heads, d_out)))
        self.register_parameter(f"W_{letter}", weight)
        self.register_parameter(f"b_{letter}", zeros if bias else None)

    def extra_repr(self) -> str:
        """Return the sizes, for the module's repr."""
        heads = f"n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}"
        return f"d_model={self.d_model}, {heads}, d_head={self.d_head}"

    def forward(
        self,
        query: Given[Float[Tensor, "*batch query d_model"]],
        key: Given[Float[Tensor, "*batch key d_key_in"]] | None = None,
        value: Given[Float[Tensor, "*batch key d_value_in"]] | None = None,
        *,
        mask: Mask | None = None,
        causal: bool = False,
        need_pattern: bool = True,
    ) -> AttentionOutput:
        """Attend from the query tokens to the key tokens and gather the value tokens.

        Args:
            query: (*batch, query, d_model).
            key: (*batch, key, d_key_in); the query tokens (self-attention) if not given.
            value: (*batch, key, d_value_in); the key tokens if not given.
            mask: as in `attention`, broadcastable to (*batch, n_heads, query, key).
            causal: query i sees keys j <= i only.
            need_pattern: False takes torch's fused kernel; pattern and scores are None then.

        Returns:
            output (*batch, query, d_model), pattern and scores (*batch, n_heads, query, key) or
            None, z (*batch, n_heads, query, d_value).

        Raises:
            ShapeError, DTypeError, ArgumentError: with what was expected and what came.

        >>> mha = MultiHeadAttention(d_model=6, n_heads=3)
        >>> mha(torch.ones(5, 7, 6), causal=True).pattern.shape
        torch.Size([5, 3, 7, 7])
        """
        key = query if key is None else key
        value = key if value is None else value
        # project and split: one slice of each W per head
        q = _project("query", query, self.W_Q, self.b_Q)
        k = _project("key", key, self.W_K, self.b_K)
        v = _project("value", value, self.W_V, self.b_V)
        # attend
        check_tensors(q, k, v, mask)
        raw = pattern = None
        if need_pattern or self.softcap is not None:
            raw = scores(q, k, mask=mask, causal=causal, scale=self.scale, softcap=self.softcap)
            pattern = softmax(raw)
            mixed = z(F.dropout(pattern, self.dropout, self.training), v)
            raw, pattern = (raw, pattern) if need_pattern else (None, None)
        else:
            dropout = self.dropout if self.training else 0.0
            mixed = fused_z(q, k, v, mask, causal, self.scale, dropout)
        # concatenate and project: summing each head's part of W_O is the same in one step
        output = torch.einsum("...hqd,hdm->...qm", mixed, self.W_O)
        output = output if self.b_O is None else output + self.b_O
        return AttentionOutput(output, pattern, raw, mixed)

    def head_output(
        self, z: Float[Tensor, "*batch n_heads query d_value"]
    ) -> Float[Tensor, "*batch n_heads query d_model"]:
        """Compute what each head writes: z times its slice of W_O. Summed, plus b_O: the output.

        Takes (*batch, n_heads, query, d_value), returns (*batch, n_heads, query, d_model).
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
        """Build a module that computes with a copy of these parameters.

        `weights` give sizes and scale as well; `dropout` is a probability in [0, 1].

        >>> ones = AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
        >>> MultiHeadAttention.from_weights(ones).d_head
        3
        """
        n_heads, d_model, d_head = weights.W_Q.shape
        n_kv_heads, d_key_in, _ = weights.W_K.shape
        _, d_value_in, d_value = weights.W_V.shape
        widths: dict[str, Any] = dict(d_value=d_value, d_key_in=d_key_in, d_value_in=d_value_in)
        sizes = (d_model, n_heads, n_kv_heads, d_head)
        mha = cls(*sizes, dropout=dropout, scale=weights.scale, **widths)
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
            part = getattr(weights, name)
            setattr(mha, name, None if part is None else nn.Parameter(part.detach().clone()))
        return mha

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Return a copy of torch's module. Ours is batch first always and keeps the heads apart.

        Raises:
            ArgumentError: for `add_bias_kv` and `add_zero_attn`, which have no counterpart here.

        >>> MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(6, 3)).W_Q.shape
        torch.Size([3, 6, 2])
        """
        if module.bias_k is not None or module.add_zero_attn:
            raise ArgumentError("expected a module without add_bias_kv and add_zero_attn")
        parameters = dict(module.named_parameters())
        if "in_proj_weight" in parameters:
            matrices = list(parameters["in_proj_weight"].chunk(3))
        else:
            matrices = [
                parameters["q_proj_weight"],
                parameters["k_proj_weight"],
                parameters["v_proj_weight"],
            ]
        heads, width = module.num_heads, module.head_dim
        # torch's matrices are (out, in), with the heads one after another in `out`
        q, k, v = (w.view(heads, width, -1).transpose(1, 2) for w in matrices)
        out = module.out_proj.weight.T.reshape(heads, width, -1)
        packed, b_o = parameters.get("in_proj_bias"), parameters.get("out_proj.bias")
        b_q, b_k, b_v = (None,) * 3 if packed is None else packed.view(3, heads, width)
        weights = AttentionWeights(q, k, v, out, b_q, b_k, b_v, b_o)
        return cls.from_weights(weights, dropout=module.dropout).train(module.training)

    @classmethod
    def from_layer(cls, model: HasAttentionWeights, layer: int) -> "MultiHeadAttention":
        """Copy one layer's attention of a loaded model, in eval mode.

        The projections and the scale only: what a model adds between them (rotary positions, a
        position bias) is not part of the module.

        >>> class Model:
        ...     def attention_weights(self, layer):
        ...         return AttentionWeights(*torch.ones(3, 2, 4, 3), torch.ones(2, 3, 4))
        >>> MultiHeadAttention.from_layer(Model(), layer=0).n_heads
        2
        """
        return cls.from_weights(model.attention_weights(layer)).eval()


def _project(name: str, tokens: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Project (*batch, token, d_in) to (*batch, head, token, width)."""
    if tokens.ndim < 2 or tokens.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"{name} must be (*batch, token, {weight.shape[1]}), got {shape_of(tokens)}"
        )
    check_alike({name: tokens, "the weights": weight})
    heads = torch.einsum("...td,hdw->...htw", tokens, weight)
    return heads if bias is None else heads + bias[:, None, :]
