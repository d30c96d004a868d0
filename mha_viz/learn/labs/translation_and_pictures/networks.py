"""Transformer blocks around the project's own attention, and the training of both networks."""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.core.attention.multi_head import AttentionOutput, MultiHeadAttention

WARMUP = 50  # steps, over which the learning rate grows; afterwards it falls to 0
N = TypeVar("N", bound=nn.Module)


class Block(nn.Module):
    """A transformer block: self-attention, cross attention if `crossed`, and an MLP.

    Each part reads LayerNorm of the tokens (without parameters) and adds its output to them.
    """

    def __init__(self, d_model: int, n_heads: int, *, crossed: bool = False) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.cross = MultiHeadAttention(d_model, n_heads) if crossed else None
        self.mlp = nn.Sequential(
            nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model)
        )

    def forward(
        self,
        tokens: Float[Tensor, "batch token d_model"],
        source: Float[Tensor, "batch key d_model"] | None = None,
        *,
        seen: Tensor | None = None,
        causal: bool = False,
    ) -> tuple[Float[Tensor, "batch token d_model"], Float[Tensor, "batch head token key"]]:
        """Return the tokens after the block, and its cross attention's pattern or else its own.

        `seen` says which tokens may be attended to, of the source where there is one.
        """
        own = None if self.cross else seen
        looked: AttentionOutput = self.attention(normed(tokens), mask=own, causal=causal)
        tokens = tokens + looked.output
        if self.cross is not None:
            looked = self.cross(normed(tokens), source, mask=seen)
            tokens = tokens + looked.output
        assert looked.pattern is not None
        return tokens + self.mlp(normed(tokens)), looked.pattern


def normed(tokens: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """Apply LayerNorm without parameters."""
    return F.layer_norm(tokens, tokens.shape[-1:])


@torch.no_grad()
def initialised(network: N, d_model: int, seed: int) -> N:
    """Draw all matrices, of variance 1 / d_model, from a generator that is theirs alone."""
    random = torch.Generator().manual_seed(seed)
    bound = math.sqrt(3 / d_model)
    for part in network.parameters():
        if part.ndim > 1:
            part.uniform_(-bound, bound, generator=random)
        else:
            part.zero_()
    return network


def weights_of(network: nn.Module) -> Float[Tensor, " weight"]:
    """Copy all parameters into one vector of float32."""
    return nn.utils.parameters_to_vector(network.parameters()).detach().float()


def with_weights(network: N, weights: Float[Tensor, " weight"]) -> N:
    """Set all parameters from one vector, in its precision."""
    nn.utils.vector_to_parameters(weights, network.to(weights.dtype).parameters())
    return network.eval()


def train(
    network: nn.Module,
    loss_of: Callable[[torch.Generator], Float[Tensor, ""]],
    n_steps: int,
    rate: float,
    seed: int,
    on_step: Callable[[int], None] | None = None,
) -> None:
    """Take steps of Adam, each on the loss (nats) of a batch that `loss_of` draws.

    `on_step` is called with the number of steps done, now and then.
    """
    random = torch.Generator().manual_seed(seed)
    descent = torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, 0.98))
    for step in range(n_steps):
        rising, falling = (step + 1) / WARMUP, (n_steps - step) / max(n_steps - WARMUP, 1)
        descent.param_groups[0]["lr"] = rate * min(rising, falling, 1.0)
        descent.zero_grad()
        loss_of(random).backward()
        descent.step()
        if on_step is not None and step % 10 == 0:
            on_step(step)
