"""The steps of training that labs share."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler


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
