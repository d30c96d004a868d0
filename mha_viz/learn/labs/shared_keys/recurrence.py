"""Lab 14: attention beside recurrence and convolution: products, and how far two tokens are apart.

Each layer is run on tokens that are tensors of their own, and the graph that autograd keeps for
its gradients is walked: dependencies are read off, not assumed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from mha_viz.core.attention.dot_product import attention
from mha_viz.errors import ArgumentError

LENGTHS = (2, 4, 8, 16, 32, 64)
WIDTH, KERNEL = 16, 3
KINDS = ("attention", "recurrent", "convolution")
_PRODUCTS = ("MmBackward", "BmmBackward", "AddmmBackward", "BaddbmmBackward")
Tokens = list[Tensor]  # (1, d) each


@dataclass(frozen=True)
class Reached:
    """Costs of carrying information from the first token to the last.

    Args:
        products: of two numbers that are added up, over all tokens and layers.
        in_turn: matrix products that wait for each other, one after the other.
        path: the fewest matrix products on a way from the first token to the last one's output.
        layers: that were needed: 1, but for a convolution, which sees only its kernel.
    """

    products: int
    in_turn: int
    path: int
    layers: int


def measure_path(kind: str, n: int, d: int = WIDTH) -> Reached:
    """Run one kind of layer on n random tokens, and walk from the last output to the first token.

    Args:
        kind: "attention" (one head, W_Q, W_K, W_V and W_O), "recurrent" (tanh of x W + h U) or
            "convolution" (causal, dilated, as many layers as it takes to see all tokens).
        n: tokens, 2 to 64.
        d: width of a token, 1 to 256.

    Raises:
        ArgumentError: another kind, or sizes outside of that.

    Source: Vaswani et al. 2017, table 1; it leaves out projections and all constants.

    >>> [measure_path(kind, 27, d=4).path for kind in KINDS]
    [3, 27, 3]
    """
    if kind not in KINDS or not 2 <= n <= 64 or not 1 <= d <= 256:
        raise ArgumentError(
            f"Take one of {', '.join(KINDS)} and 2 to 64 tokens of width 1 to 256; got {kind!r}, "
            f"{n} and {d}."
        )
    random = torch.Generator().manual_seed(0)
    tokens = [torch.randn(1, d, generator=random).requires_grad_() for _ in range(n)]
    layers = _layers(n) if kind == "convolution" else 1
    run: dict[str, Callable[[Tokens, Callable[[], Tensor]], Tensor]] = {
        "attention": _attention,
        "recurrent": _recurrent,
        "convolution": partial(_convolution, layers=layers),
    }
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        last = run[kind](tokens, lambda: torch.randn(d, d, generator=random) / d**0.5)
    path, in_turn = _walk(last, tokens[0])
    return Reached(counter.get_total_flops() // 2, in_turn, path, layers)


def formula(kind: str, n: int, d: int = WIDTH) -> int:
    """Return the products that `reached` counts by formula, with projections and constants.

    >>> formula("recurrent", 5, 4)
    160
    """
    return {
        "attention": 2 * n**2 * d + 4 * n * d**2,
        "recurrent": 2 * n * d**2,
        "convolution": _layers(n) * KERNEL * n * d**2,
    }[kind]


def _layers(n: int) -> int:
    """Return the number of dilated layers whose KERNEL^layers places cover n tokens."""
    layers = 1
    while KERNEL**layers < n:
        layers += 1
    return layers


def _attention(tokens: Tokens, weights: Callable[[], Tensor]) -> Tensor:
    W_Q, W_K, W_V, W_O = (weights() for _ in range(4))
    q, k, v = (torch.cat([x @ W for x in tokens])[None] for W in (W_Q, W_K, W_V))
    z, _ = attention(q, k, v)
    return torch.cat([row[None] @ W_O for row in z[0]])[-1]


def _recurrent(tokens: Tokens, weights: Callable[[], Tensor]) -> Tensor:
    W, U = weights(), weights()
    state = torch.zeros_like(tokens[0])
    for x in tokens:
        state = (x @ W + state @ U).tanh()
    return state


def _convolution(tokens: Tokens, weights: Callable[[], Tensor], layers: int) -> Tensor:
    """Run causal convolutions; zeros before the first token are multiplied like all others."""
    nothing = torch.zeros_like(tokens[0])
    for layer in range(layers):
        W, away = [weights() for _ in range(KERNEL)], KERNEL**layer

        def token_at(at: int, tap: int, row: Tokens = tokens, step: int = away) -> Tensor:
            return row[at - tap * step] if at >= tap * step else nothing

        tokens = [
            torch.stack([token_at(i, tap) @ W[tap] for tap in range(KERNEL)]).sum(0).relu()
            for i in range(len(tokens))
        ]
    return tokens[-1]


def _walk(output: Tensor, leaf: Tensor) -> tuple[int, int]:
    """Count matrix products on the shortest path to the leaf, and on the longest to any leaf."""

    @cache
    def products(node: Any) -> tuple[float, int]:
        inputs = [products(other) for other, _ in node.next_functions if other is not None]
        is_product = int(node.name().startswith(_PRODUCTS))
        fewest = 0.0 if getattr(node, "variable", None) is leaf else math.inf
        fewest = min([fewest, *(few + is_product for few, _ in inputs)])
        return fewest, max((most for _, most in inputs), default=0) + is_product

    few, most = products(output.grad_fn)
    return int(few), most
