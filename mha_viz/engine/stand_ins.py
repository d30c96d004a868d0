"""A network with other modules in it: what stands in another's place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import nn

Network = TypeVar("Network", bound=nn.Module)


class StandIn(nn.Module):
    """A module in another's place; what it is asked about itself, that one answers."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.__dict__["original"] = original  # not a child: its parameters are the model's

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)


class Listening(StandIn):
    """Calls the original, and notes of every call its first argument and its output."""

    def __init__(self, original: nn.Module, heard: list[tuple[Any, Any]]) -> None:
        super().__init__(original)
        self.__dict__["heard"] = heard

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original."""
        output = self.original(*args, **kwargs)
        self.heard.append((args[0], output))
        return output


def with_stand_ins(network: Network, stand_ins: Mapping[str, nn.Module]) -> Network:
    """A network that shares all but the modules named; the given one is not touched.

    Args:
        network: any.
        stand_ins: path of a module -> what to call instead of it.
    """
    whole = _twin(network)
    copies: dict[str, nn.Module] = {"": whole}
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
    return whole


def _twin(module: Network) -> Network:
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
