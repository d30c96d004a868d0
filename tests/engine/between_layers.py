"""The span of a forward pass in which nothing may be waited for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from torch import Tensor, nn

from mha_viz.engine.probe import Probe


@contextmanager
def between_layers(
    monkeypatch: pytest.MonkeyPatch, begin: Callable[[], Any], end: Callable[[], Any]
) -> Iterator[list[int]]:
    """Call `begin` once the first layer of each pass is done, and `end` once its last is.

    Yields the number of layers of each such span. The first layer makes what all share.
    """
    take, spans = Probe.take, list[int]()

    def watched(self: Probe, module: nn.Module, scale: float, **tensors: Tensor | None) -> None:
        last = len(self.modules) + 1 == self.n_layers
        try:
            take(self, module, scale, **tensors)
        finally:
            if last:
                end()
                spans.append(self.n_layers)
        if len(self.modules) == 1 < self.n_layers:
            begin()

    with monkeypatch.context() as changed:
        changed.setattr(Probe, "take", watched)
        yield spans
    end()
