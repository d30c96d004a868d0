"""Modules that take the place of others in a copy of a network's module tree."""

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import nn

Network = TypeVar("Network", bound=nn.Module)


class ModuleProxy(nn.Module):
    """A module in another's place; its attributes are those of the original, and `own` ones."""

    def __init__(self, original: nn.Module, **own: Any) -> None:
        super().__init__()
        self.__dict__.update(own, original=original)  # no child: its parameters are the model's

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)


class CallRecorder(ModuleProxy):
    """A proxy that adds the first argument and the output of every call to its list `calls`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original and keep its first argument and its output."""
        output = self.original(*args, **kwargs)
        self.calls.append((args[0] if args else next(iter(kwargs.values())), output))
        return output


class OutputProxy(ModuleProxy):
    """A proxy that gives one of its `outputs` after the other, whatever its input."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the next output."""
        return next(self.outputs)


def replace_modules(network: Network, replacements: Mapping[str, nn.Module]) -> Network:
    """Copy a network's module tree, with other modules at some paths; parameters are shared."""
    whole = _twin(network)
    copies: dict[str, nn.Module] = {"": whole}
    for path, replacement in replacements.items():
        *above, name = path.split(".")
        parent = copies[""]
        for depth, step in enumerate(above, 1):
            here = ".".join(above[:depth])
            if here not in copies:
                child = parent._modules[step]
                assert child is not None  # on the way to a module that is there
                parent._modules[step] = copies[here] = _twin(child)
            parent = copies[here]
        parent._modules[name] = replacement
    return whole


def with_replaced(network: Network, replacements: Mapping[nn.Module, nn.Module]) -> Network:
    """Replace some modules of a network wherever they stand; the network itself is not touched."""
    paths = network.named_modules(remove_duplicate=False)
    found = {path: replacements[module] for path, module in paths if module in replacements}
    return replace_modules(network, found)


def _twin(module: Network) -> Network:
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
