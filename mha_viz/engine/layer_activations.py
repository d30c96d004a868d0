"""Copies of a network with other modules in some places, and what one layer reads and writes."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.run import run
from mha_viz.text.encoding import encode_texts

Network = TypeVar("Network", bound=nn.Module)


class ModuleProxy(nn.Module):
    """A module in another's place; its attributes are those of the original, and `own` ones."""

    def __init__(self, original: nn.Module, **attributes: Any) -> None:
        super().__init__()
        # no child: its parameters are the model's
        self.__dict__.update(attributes, original=original)

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
    twin = _twin(network)
    copies: dict[str, nn.Module] = {"": twin}
    for path, replacement in replacements.items():
        *above, name = path.split(".")
        parent = copies[""]
        for depth, step in enumerate(above, 1):
            prefix = ".".join(above[:depth])
            if prefix not in copies:
                child = parent._modules[step]
                assert child is not None  # on the way to a module that is there
                parent._modules[step] = copies[prefix] = _twin(child)
            parent = copies[prefix]
        parent._modules[name] = replacement
    return twin


def with_replaced(network: Network, replacements: Mapping[nn.Module, nn.Module]) -> Network:
    """Replace some modules of a network wherever they stand; the network itself is not touched."""
    paths = network.named_modules(remove_duplicate=False)
    by_path = {path: replacements[module] for path, module in paths if module in replacements}
    return replace_modules(network, by_path)


def _twin(module: Network) -> Network:
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin


@dataclass(frozen=True)
class LayerActivations:
    """The inputs and the output of one layer's attention: float32 on the CPU, no batch axis."""

    # what queries are made from; after the norm, where a family puts it first
    X: Float[Tensor, "query d_model"]
    # what keys and values are made from: X itself, except in cross-attention
    Y: Float[Tensor, "key d_in"]
    output: Float[Tensor, "query d_model"]  # the layer's attention output, b_O included


def layer_activations(
    model: AttentionModel,
    text: str,
    text_pair: str | None = None,
    *,
    layer: int,
    part: str | None = None,
) -> LayerActivations:
    """Run a text and take down what goes into and out of one layer's projections.

    Nothing is changed on the model: a copy of its module tree, with the same weights, is run.

    >>> import mha_viz as mv
    >>> tuple(layer_activations(mv.load("tiny-gpt2"), "The cat sat.", layer=0).X.shape)
    (4, 256)
    """
    model.attention_weights(layer, part)  # says what is wrong, where something is
    layers = model.layers(part)
    query, key, output = layers[layer].modules()
    recorders = {module: CallRecorder(module, calls=[]) for module in (query, key, output)}
    source, target = encode_texts(model.stored_reader, text, text_pair)
    network, targets = with_replaced(model.network, recorders), None if target is None else [target]
    run(network, model.backend, [source], targets, pad=model.tokenizer.pad_token_id or 0)
    # A family may run one module again and again: the call that is this layer's.
    turn = sum(other.module is layers[layer].module for other in layers[:layer])
    ends = zip((query, key, output), (0, 0, 1), strict=True)
    calls = (recorders[module].calls[turn][end].flatten(0, -2) for module, end in ends)
    # copies, out of inference mode
    return LayerActivations(*(x.detach().to("cpu", torch.float32, copy=True) for x in calls))
