"""The span of a forward pass in which nothing may be waited for, and a mode that refuses waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mha_viz.engine.probe import Probe

WAITING = (
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::unique_dim",
    "aten::_unique2",
)


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


class Refusing(TorchDispatchMode):
    """Refuses steps that wait for their device, while it is switched on."""

    on = False

    def switch(self, on: bool) -> None:
        self.on = on

    def __torch_dispatch__(self, step: Any, types: Any, args: Any = (), given: Any = None) -> Any:
        if self.on:
            assert step.name() not in WAITING, f"{step.name()} waits for its device"
            if step.name() in ("aten::index.Tensor", "aten::index_put_"):
                kinds = [one.dtype for one in args[1] if one is not None]
                assert torch.bool not in kinds, f"{step.name()} with a mask waits for its device"
            given = given or {}
            if step.name() == "aten::_to_copy" and given.get("device") not in (
                None,
                args[0].device,
            ):
                assert given.get("non_blocking"), "a copy from device to device waits for both"
        return step(*args, **(given or {}))
