"""What labs that train a model promise of every run."""

from collections.abc import Callable
from typing import Any

import torch


def trained_twice(train: Callable[..., Any], seed: int) -> tuple[Any, Any, list[int]]:
    """Two runs from one seed, under two global seeds, and the steps of which the first one told."""
    steps: list[int] = []
    torch.manual_seed(1)
    one = train(seed=seed, on_step=steps.append)
    torch.manual_seed(2)
    return one, train(seed=seed), steps
