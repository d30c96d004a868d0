"""Lab 2, its training: W_Q and W_K that make every token look at its left neighbour."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mha_viz.core.attention.multi_head import MultiHeadAttention
from mha_viz.core.metrics import METRICS
from mha_viz.errors import ArgumentError
from mha_viz.learn.training import descend, sinusoids

D_MODEL = 64
TOKEN_SIZE = 0.3  # of the tokens' entries, so that they do not drown positions out


@dataclass(frozen=True)
class Learned:
    """The training of W_Q and W_K to look at the left neighbour.

    Args:
        steps: after how many steps the numbers were taken; the first is 0.
        losses: -mean ln of the weight on the left neighbour, nats, on texts never trained on.
        previous: the metric `previous_token` on them, in [0, 1].
        before, after: (token, token), the pattern of one such text.
    """

    steps: list[int]
    losses: list[float]
    previous: list[float]
    before: Tensor
    after: Tensor


def learn_left(
    n_tokens: int = 8,
    n_steps: int = 300,
    seed: int = 0,
    positions: bool = True,
    on_step: Callable[[int], None] | None = None,
) -> Learned:
    """Train W_Q and W_K, from the identity, until tokens look at their left neighbour.

    X = random tokens, new ones in every step, plus `sinusoids`; d_model 64, one head as wide. The
    first token has no neighbour and does not count.

    Args:
        n_tokens: of a text, 3..16.
        n_steps: of Adam, 1..10,000.
        seed: of the random tokens.
        positions: whether they are added.
        on_step: called with the number of steps done, now and then.

    Raises:
        ArgumentError: sizes outside of that.

    >>> learned = learn_left(n_steps=20)
    >>> learned.losses[-1] < learned.losses[0]
    True
    """
    if not (3 <= n_tokens <= 16 and 1 <= n_steps <= 10_000):
        raise ArgumentError(f"3 to 16 tokens, 1 to 10,000 steps; got {n_tokens} and {n_steps}.")
    random = torch.Generator().manual_seed(seed)
    mha = MultiHeadAttention(D_MODEL, n_heads=1, bias=False)
    with torch.no_grad():
        for weight in (mha.W_Q, mha.W_K):  # Q = K = X: attention that sees itself
            weight.copy_(torch.eye(D_MODEL)[None])
    optimizer = torch.optim.Adam([mha.W_Q, mha.W_K], lr=0.02)
    encoding = sinusoids(n_tokens, D_MODEL) if positions else torch.zeros(n_tokens, D_MODEL)

    def texts() -> Tensor:
        return TOKEN_SIZE * torch.randn(64, n_tokens, D_MODEL, generator=random) + encoding

    def measure(step: int) -> Tensor:
        pattern, loss = _look(mha, unseen)
        # The metric takes any two axes before query and key: here texts are in place of layers.
        previous = METRICS["previous_token"].function(pattern.detach()).mean()
        points.append((step, float(loss.detach()), float(previous)))
        if on_step is not None:
            on_step(step)
        return pattern[0, 0].detach()

    unseen = texts()
    points: list[tuple[int, float, float]] = []
    before = after = measure(0)
    every = max(1, n_steps // 50)
    for step in descend(optimizer, lambda: _look(mha, texts())[1], n_steps):
        if step % every == 0 or step == n_steps:
            after = measure(step)
    steps, losses, weights = map(list, zip(*points, strict=True))
    return Learned(steps, losses, weights, before, after)


def _look(mha: MultiHeadAttention, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the pattern, and the cross-entropy between its rows and their left neighbours."""
    output = mha(tokens)
    assert output.scores is not None and output.pattern is not None
    neighbours = torch.arange(tokens.shape[1] - 1).expand(len(tokens), -1)
    loss = F.cross_entropy(output.scores[:, 0, 1:].flatten(0, 1), neighbours.flatten())
    return output.pattern, loss
