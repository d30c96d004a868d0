"""Parts and steps of the networks that labs train, and their weights as one vector."""

import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from mha_viz.core.attention.multi_head import AttentionOutput, MultiHeadAttention

N = TypeVar("N", bound=nn.Module)


def sinusoids(n_tokens: int, d_model: int) -> Float[Tensor, "token d_model"]:
    """Return positions as sines and cosines of many wavelengths.

    A step to the left turns each pair of them by an angle: a linear map, the same for every place.

    Source: Vaswani et al. 2017, section 3.5; here sines come first, and wavelengths grow up to
    100 times, not 10,000: texts are short.

    >>> sinusoids(2, 4)[0]
    tensor([0., 0., 1., 1.])
    """
    rates = 100.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(n_tokens)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def normed(tokens: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """Apply LayerNorm without parameters."""
    return F.layer_norm(tokens, tokens.shape[-1:])


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


@torch.no_grad()
def initialised(network: N, d_model: int, random: torch.Generator) -> N:
    """Draw all matrices, uniform and of variance 1 / d_model, and set all vectors to 0."""
    bound = math.sqrt(3 / d_model)
    for part in network.parameters():
        if part.ndim > 1:
            part.uniform_(-bound, bound, generator=random)
        else:
            part.zero_()
    return network


def descend(
    optimizer: torch.optim.Optimizer,
    loss: Callable[[], Float[Tensor, ""]],
    n_steps: int,
    schedule: LRScheduler | None = None,
) -> Iterator[int]:
    """Take steps of gradient descent, each on a loss computed anew; yield how many are done.

    `schedule` changes the learning rate after each step.

    >>> weight = torch.tensor(1.0, requires_grad=True)
    >>> list(descend(torch.optim.SGD([weight], lr=0.25), lambda: weight**2, 2)), weight.item()
    ([1, 2], 0.25)
    """
    for step in range(n_steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        yield step + 1


def train(
    network: nn.Module,
    loss: Callable[[], Float[Tensor, ""]],
    n_steps: int,
    rate: float,
    *,
    warmup: int = 0,
    beta: float = 0.98,
    on_step: Callable[[int], object] | None = None,
) -> None:
    """Take steps of Adam, each on a loss computed anew.

    Args:
        network: whose parameters are trained.
        loss: of a batch, which it draws.
        n_steps: of Adam.
        rate: the largest learning rate.
        warmup: steps over which the rate grows; afterwards it falls to 0. 0: it is constant.
        beta: of the running mean of squared gradients.
        on_step: called with the number of steps done, now and then.
    """

    def schedule(step: int) -> float:
        fall = (n_steps - step) / max(n_steps - warmup, 1)
        return min((step + 1) / warmup, fall, 1) if warmup else 1.0

    adam = torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, beta))
    for done in descend(adam, loss, n_steps, LambdaLR(adam, schedule)):
        if on_step is not None and done % 10 == 1:
            on_step(done - 1)


def accuracy(logits: Float[Tensor, "*batch class"], classes: Int[Tensor, "*batch"]) -> float:
    """Return the share of examples whose largest logit is that of their class, in [0, 1].

    >>> accuracy(torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([1, 1]))
    0.5
    """
    return float((logits.argmax(-1) == classes).double().mean())


def weights_of(network: nn.Module) -> Float[Tensor, " weight"]:
    """Copy all parameters into one vector of float32."""
    return nn.utils.parameters_to_vector(network.parameters()).detach().float()


def with_weights(network: N, weights: Float[Tensor, " weight"]) -> N:
    """Set all parameters from one vector, in its precision.

    >>> layer = with_weights(nn.Linear(2, 1), torch.tensor([1.0, 2.0, 3.0]))
    >>> layer.bias, weights_of(layer)
    (Parameter containing:
    tensor([3.], requires_grad=True), tensor([1., 2., 3.]))
    """
    nn.utils.vector_to_parameters(weights, network.to(weights.dtype).parameters())
    return network.eval()


def split_by_name(network: nn.Module, vector: Float[Tensor, " weight"]) -> dict[str, Tensor]:
    """Split one vector into parts of the names and shapes that a network's parameters have.

    >>> {name: part.shape for name, part in split_by_name(nn.Linear(2, 1), torch.ones(3)).items()}
    {'weight': torch.Size([1, 2]), 'bias': torch.Size([1])}
    """
    named = dict(network.named_parameters())
    parts = vector.split([weight.numel() for weight in named.values()])
    return {k: part.view_as(named[k]) for k, part in zip(named, parts, strict=True)}
