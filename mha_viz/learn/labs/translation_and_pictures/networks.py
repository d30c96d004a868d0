"""Transformer blocks around the project's own attention, and the training of both networks."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.core.attention.multi_head import AttentionOutput, MultiHeadAttention
from mha_viz.learn.training import descend, normed

WARMUP = 50  # steps, over which the learning rate grows; afterwards it falls to 0


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
        visible: Tensor | None = None,
        causal: bool = False,
    ) -> tuple[Float[Tensor, "batch token d_model"], Float[Tensor, "batch head token key"]]:
        """Return the tokens after the block, and its cross attention's pattern or else its own.

        `visible` says which tokens may be attended to, of the source where there is one.
        """
        mask = None if self.cross else visible
        attention: AttentionOutput = self.attention(normed(tokens), mask=mask, causal=causal)
        tokens = tokens + attention.output
        if self.cross is not None:
            attention = self.cross(normed(tokens), source, mask=visible)
            tokens = tokens + attention.output
        assert attention.pattern is not None
        return tokens + self.mlp(normed(tokens)), attention.pattern


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
    adam = torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda step: min((step + 1) / WARMUP, (n_steps - step) / max(n_steps - WARMUP, 1), 1)
    )
    for done in descend(adam, partial(loss_of, random), n_steps, schedule):
        if on_step is not None and done % 10 == 1:
            on_step(done - 1)
