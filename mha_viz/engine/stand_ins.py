"""A network with other modules in it: what stands in another's place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import nn


class StandIn(nn.Module):
    """A module in another's place; what it is asked about itself, that one answers."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.__dict__["original"] = original  # not a child: its parameters are the model's

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)


def with_stand_ins(network: nn.Module, stand_ins: Mapping[str, nn.Module]) -> nn.Module:
    """A network that shares all but the modules named; the given one is not touched.

    Args:
        network: any.
        stand_ins: path of a module -> what to call instead of it.
    """
    copies = {"": _twin(network)}
    for path, stand_in in stand_ins.items():
        *above, name = path.split(".")
        parent = copies[""]
        for depth, step in enumerate(above, 1):
            here = ".".join(above[:depth])
            if here not in copies:
                child = parent._modules[step]
                assert child is not None  # on the way to a module that is there
                parent._modules[step] = copies[here] = _twin(child)
            parent = copies[here]
        parent._modules[name] = stand_in
    return copies[""]


def _twin(module: nn.Module) -> nn.Module:
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
