"""The steps of training that labs share, and a network's weights as one vector."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

N = TypeVar("N", bound=nn.Module)


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
