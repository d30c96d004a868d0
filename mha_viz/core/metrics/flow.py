"""Attention through all layers, and weights multiplied by the size of their values.

The first two stand on one picture: in every layer a token's state is made of all tokens by that
layer's attention, averaged over the heads, and of itself by the residual connection.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor, shape_of
from mha_viz.core.metrics.checks import OutputMatrices, Pattern, check_pattern, check_self_attention
from mha_viz.errors import ArgumentError, DTypeError, ShapeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FLOW_LIMIT = 80_000_000  # layer * key ** 3, to which the work is in proportion: under 5 s
FLOW_UNIT = 2**30  # what a capacity of 1 is as an integer; the largest power whose sums fit int32


def attention_rollout(pattern: Pattern, residual: float = 0.5) -> Float[Tensor, "layer query key"]:
    """Compute how much of each input token is in each token after each layer by attention alone.

    R_l = M_l R_{l-1} with R_{-1} the identity and M_l the layer's rows, scaled to a sum of 1, of
    residual * I + (1 - residual) * mean over heads of A. It leaves out what values and MLPs do.

    `residual` is the share of a token's state that goes past attention, in [0, 1]. Returns (layer,
    query, key), shares in [0, 1]; rows sum to 1, or to 0 where residual is 0 and a query saw
    nothing. Raises ArgumentError: for cross-attention, or a residual out of range. Source: Abnar
    and Zuidema 2020, section 3, who take residual = 0.5.

    >>> A = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> attention_rollout(torch.stack([A, A])[:, None])
    tensor([[[1.0000, 0.0000],
             [0.5000, 0.5000]],
            [[1.0000, 0.0000],
             [0.7500, 0.2500]]])
    """
    return torch.stack(list(_rolled(_mixing(pattern, residual))))


def last_rollout(
    layers: Iterable[Float[Tensor, "head query key"]], residual: float = 0.5
) -> Float[Tensor, "query key"]:
    """Compute `attention_rollout` after the last of these layers, one at a time in memory.

    There is one layer at least. Returns (query, key), shares in [0, 1].

    >>> A = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> last_rollout([A, A])
    tensor([[1.0000, 0.0000],
            [0.7500, 0.2500]])
    """
    (last,) = deque(_rolled(_mixing(layer[None], residual)[0] for layer in layers), maxlen=1)
    return last


def attention_flow(pattern: Pattern, query: int, residual: float = 0.5) -> Float[Tensor, "key"]:
    """Compute the maximum flow from one token of the last layer to each input token.

    Tokens of every layer are the nodes of a network, and M_l of `attention_rollout` has its edges'
    capacities. Each input token is a problem of its own, so the flows do not add up to 1.

    Capacities are rounded to integers, as the solver takes them. A flow is then off by at most half
    a unit for each edge of its smallest cut: less than layer * key ** 2 / 2 ** 31 in any case, and
    1e-8 or so in fact.

    layer * key ** 3 is at most 80,000,000 (187 tokens in 12 layers), which keeps it within 5 s.
    `query` is the token of the last layer, from 0; negative numbers count from the end. Returns
    (key,), shares in [0, 1]. Raises ArgumentError: for cross-attention, a query that does not
    exist, a residual out of range, or a text too long. Source: Abnar and Zuidema 2020, section 3.

    >>> A = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> attention_flow(torch.stack([A, A])[:, None], query=1)
    tensor([1.0000, 0.5000])
    """
    from scipy.sparse.csgraph import maximum_flow  # late: 0.4 s, and nothing else here needs it

    mixing = _mixing(pattern, residual)
    n_layers, n = mixing.shape[:2]
    if not -n <= query < n:
        raise ArgumentError(f"query must lie in 0..{n - 1}, got {query}")
    check_flow_size(n_layers, n)
    if mixing.isnan().any():
        return mixing.new_full((n,), torch.nan)
    network, source = _network(mixing), n_layers * n + query % n
    flows = [maximum_flow(network, source, key, method="dinic").flow_value for key in range(n)]
    return torch.tensor(flows, dtype=torch.float64).div(FLOW_UNIT).clamp(max=1.0).to(mixing)


def check_flow_size(n_layers: int, n_tokens: int) -> None:
    """Raise ArgumentError where `attention_flow` would take too long."""
    if n_layers * n_tokens**3 > FLOW_LIMIT:
        most = int((FLOW_LIMIT / n_layers) ** (1 / 3))
        raise ArgumentError(
            f"attention flow takes at most {most} tokens in {n_layers} layers, got {n_tokens:,}: "
            "shorten the text, merge its tokens to words, or take attention_rollout"
        )


def value_weighted(
    pattern: Pattern, value: Given[Float[Array, "layer kv_head key d_value"]], W_O: OutputMatrices
) -> Float[Tensor, "layer head query key"]:
    """Multiply weights by the length of what they carry: A_qk ||v_k W_O||.

    A head may give a token much weight and take little from it, which A alone does not show.
    `value` (layer, kv_head, key, d_value) is as the attention saw it, biases included; `W_O` is
    (head, d_value, d_model) per layer. Returns (layer, head, query, key), lengths in the model's
    hidden space, 0 or more. Source: Kobayashi et al. 2020, ||alpha f(x)||; b_O, which no token
    brings, is left out.

    >>> A, v = torch.tensor([[[[0.5, 0.5]]]]), torch.tensor([[[[3.0], [0.0]]]])
    >>> value_weighted(A, v, [torch.tensor([[[3.0, 4.0]]])])
    tensor([[[[7.5000, 0.0000]]]])
    """
    pattern, wide = check_pattern(pattern)
    value = as_tensor("value", value)
    weights = [as_tensor("W_O", weight) for weight in W_O]
    _check_carried(pattern, value, weights)
    value = value.repeat_interleave(pattern.shape[1] // value.shape[1], 1)
    lengths = [_lengths(v, W) for v, W in zip(value.unbind(), weights, strict=True)]
    return pattern.to(wide) * torch.stack(lengths).to(wide)[:, :, None, :]


def _rolled(mixing: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield R of each layer."""
    rolled: Tensor | None = None
    for layer in mixing:
        rolled = layer if rolled is None else layer @ rolled
        yield rolled


def _mixing(pattern: Pattern, residual: float) -> Tensor:
    """Return each layer's M: (layer, query, key), rows that sum to 1 (or 0, if empty)."""
    pattern, wide = check_self_attention(pattern)
    if not 0 <= residual <= 1:
        raise ArgumentError(f"residual must be in [0, 1], got {residual}")
    mean = pattern.mean(1, dtype=wide)
    itself = torch.eye(mean.shape[-1], dtype=wide, device=mean.device)
    mixed = residual * itself + (1 - residual) * mean
    total = mixed.sum(-1, keepdim=True)
    return mixed / total.where(total > 0, 1.0)


def _network(mixing: Tensor) -> "csr_array":
    """Build the edges from token q after a layer, node (layer + 1) * n + q, to those before it."""
    from scipy.sparse import csr_array

    units = (mixing.double() * FLOW_UNIT).round().to(torch.int32).cpu().numpy()
    n_layers, n, _ = units.shape
    layer, query, key = np.nonzero(units)
    ends = ((layer + 1) * n + query, layer * n + key)
    return csr_array((units[layer, query, key], ends), shape=((n_layers + 1) * n,) * 2)


def _check_carried(pattern: Tensor, value: Tensor, W_O: Sequence[Tensor]) -> None:
    n_layers, n_heads, _, n_key = pattern.shape
    n_kv_heads, d_value = (value.shape[1], value.shape[-1]) if value.ndim == 4 else (0, 0)
    fits = shape_of(value) == (n_layers, n_kv_heads, n_key, d_value)
    if not (fits and n_kv_heads and n_heads % n_kv_heads == 0):
        raise ShapeError(
            f"value must be {(n_layers, n_heads, n_key)} and its width, got {shape_of(value)}"
        )
    shapes = [shape_of(W)[:2] if W.ndim == 3 else shape_of(W) for W in W_O]
    if shapes != [(n_heads, d_value)] * n_layers:
        raise ShapeError(
            f"W_O must be ({n_heads}, {d_value}, d_model) in each of {n_layers} layers, got "
            f"{[shape_of(W) for W in W_O]}"
        )
    for name, tensor in (("value", value), *(("W_O", W) for W in W_O)):
        if not tensor.is_floating_point():
            raise DTypeError(f"{name} must be floating point, got {tensor.dtype}")


def _lengths(value: Tensor, W_O: Tensor) -> Tensor:
    """Compute ||v_k W_O|| of one layer, (head, key), from each head's Gram matrix W_O W_O^T.

    A value is d_value numbers, what becomes of it d_model: that is never laid out. In float64,
    since a square root of rounding errors would show where W_O nearly cancels a value.
    """
    W_O = W_O.detach().to(value.device, torch.float64)
    value = value.detach().double()
    return ((value @ (W_O @ W_O.mT)) * value).sum(-1).clamp_min(0.0).sqrt()
