"""Modules of a network that write into its residual stream, and the components they write."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError

PROJECTION_BIAS = "projection bias"  # of queries, keys and values: no part of the stream itself
_MLP = ("mlp", "ffn", "feed_forward")  # of a layer, where it is a module of its own


@dataclass(frozen=True)
class Site:
    """A module, and the names of the components that it writes at each of its calls, in order.

    An embedding and an MLP write their output. Of an output projection, a norm and any other
    projection the name is that of its bias.
    """

    path: str  # from the network down
    module: nn.Module  # what stands there
    # names of components; a module that several layers share has one for each.
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """The modules that write into a residual stream or change it on its way."""

    embeddings: tuple[Site, ...]  # tables that the first stream is made of
    outputs: tuple[Site, ...]  # the projections at the end of attention
    mlps: tuple[Site, ...]  # what stands for a layer's MLP: itself, or its last projection
    norms: tuple[Site, ...]  # all norms, those of queries and keys included
    # what makes queries, keys and values, and what stands before or after all layers.
    projections: tuple[Site, ...]
    # of each layer the path of its module; a module that is run again stands there again.
    layers: tuple[str, ...]

    @property
    def sites(self) -> tuple[Site, ...]:
        """All modules."""
        return self.embeddings + self.outputs + self.mlps + self.norms + self.projections

    def entering(self, calls: Mapping[str, Sequence[tuple[Any, Any]]]) -> list[Tensor]:
        """Return what enters each layer, and at the end what leaves the last one."""
        turns = [self.layers[:i].count(path) for i, path in enumerate(self.layers)]
        inputs = [calls[path][turn][0] for path, turn in zip(self.layers, turns, strict=True)]
        last = calls[self.layers[-1]][-1][1]
        return [*inputs, last[0] if isinstance(last, tuple) else last]


@dataclass(frozen=True)
class Component:
    """One part of the residual stream."""

    # "embedding", "position", "L0 H3", "L0 attention bias", "L0 MLP", "L0 norm bias", ...
    name: str
    kind: str  # its type, such as "head" or "norm bias"; behind the stream its own name
    layer: int | None = None  # which writes it; None outside of layers
    head: int | None = None  # None for what is no head


def components_of(layout: Layout, n_heads: int) -> tuple[Component, ...]:
    """List all components of a stream of this layout, in order."""

    def biases(sites: Sequence[Site], start: str) -> list[Component]:
        names = [
            name
            for site in sites
            for name in site.writes
            if name.startswith(start) and getattr(site.module, "bias", None) is not None
        ]
        kind = "norm bias" if sites is layout.norms else "projection bias"
        layer = int(start[1:]) if start[0] == "L" else None
        return [Component(name, kind, layer) for name in dict.fromkeys(names)]

    components = [Component(site.writes[0], "embedding") for site in layout.embeddings]
    components += biases(layout.norms, "embedding ") + biases(layout.projections, "embedding ")
    for layer in range(len(layout.layers)):
        components += [
            Component(f"L{layer} H{head}", "head", layer, head) for head in range(n_heads)
        ]
        components.append(Component(f"L{layer} attention bias", "attention bias", layer))
        components.append(Component(f"L{layer} MLP", "MLP", layer))
        components += biases(layout.norms, f"L{layer} ")
    return tuple(components + biases(layout.norms, "final "))


def stack_of(network: Any) -> Any:
    """Return the stack of layers that is decomposed: the only one, or the encoder."""
    return network.get_encoder() if network.config.is_encoder_decoder else network.base_model


def layout_of(model: AttentionModel) -> Layout:
    """Find the layout of a model's first part; AttentionUnavailableError where it is not known."""
    projections = model.layers()
    if not model.attends_in_all_layers:
        raise unknown_layout(model, "its layers without attention write into it, too")
    inside = set(stack_of(model.network).modules())
    paths = {module: path for path, module in model.network.named_modules() if module in inside}
    layers = tuple(layer_path(model, paths[layer.module]) for layer in projections)
    outputs = [layer.modules()[2] for layer in projections]
    attention = {part for layer in projections for part in layer.module.modules()} - set(outputs)
    mlps = [mlp_of(model, path, attention | set(outputs)) for path in dict.fromkeys(layers)]

    def site(module: nn.Module, name: str) -> Site:
        path = paths[module]
        numbers = [i for i, layer in enumerate(layers) if path.startswith(f"{layer}.")]
        if numbers:
            return Site(path, module, tuple(f"L{i} {name}" for i in numbers))
        return Site(path, module, (("embedding " if "emb" in path else "final ") + name,))

    def of_embeddings(module: nn.Module) -> bool:
        """Tell whether a module is outside of all layers, and of no encoder's classifier."""
        path = paths[module]
        return "pooler" not in path and not any(path.startswith(f"{layer}.") for layer in layers)

    linear, outside = _linear(paths), "embedding projection bias"
    return Layout(
        embeddings=tuple(
            Site(path, module, (_embedding(model, module, path),))
            for module, path in paths.items()
            if isinstance(module, nn.Embedding) and of_embeddings(module)
        ),
        outputs=tuple(site(module, "attention bias") for module in dict.fromkeys(outputs)),
        mlps=tuple(site(module, "MLP") for module in mlps),
        norms=tuple(site(module, "norm bias") for module in paths if is_norm(module)),
        projections=tuple(
            Site(paths[module], module, (PROJECTION_BIAS if module in attention else outside,))
            for module in linear
            if module in attention or of_embeddings(module)
        ),
        layers=layers,
    )


def layer_and_mlp_paths(model: AttentionModel) -> tuple[list[str], list[str]]:
    """Return the paths of each layer and its MLP; a module that is run again stands there again."""
    paths = {module: path for path, module in model.network.named_modules()}
    layers = [layer_path(model, paths[layer.module]) for layer in model.layers()]
    inside = (set(layer.module.modules()) for layer in model.layers())
    mlps = (mlp_of(model, *of_layer) for of_layer in zip(layers, inside, strict=True))
    return layers, [paths[mlp] for mlp in mlps]


def layer_path(model: AttentionModel, path: str) -> str:
    """Return the path of the layer that a module stands in: up to the first number."""
    match = re.match(r"(.*?\.)?\d+(?=\.)", path)
    if match is None:
        raise unknown_layout(model, f"its attention stands at {path!r}, in no numbered layer")
    return match[0]


def mlp_of(model: AttentionModel, layer: str, attention: set[nn.Module]) -> nn.Module:
    """Find a layer's MLP; where it is in several pieces, the last projection outside of attention.

    BERT and its relatives spread it over modules that also hold a norm.
    """
    module_of_layer = model.network.get_submodule(layer)
    for name in _MLP:
        module = getattr(module_of_layer, name, None)
        if isinstance(module, nn.Module) and not isinstance(module, nn.Linear | Conv1D):
            return module
    last = [module for module in _linear(module_of_layer.modules()) if module not in attention]
    if not last:
        raise unknown_layout(model, f"no MLP was found in its layer {layer!r}")
    return last[-1]


def _linear(modules: Iterable[nn.Module]) -> list[nn.Linear | Conv1D]:
    return [module for module in modules if isinstance(module, nn.Linear | Conv1D)]


def _embedding(model: AttentionModel, module: nn.Module, path: str) -> str:
    name = path.rpartition(".")[2]
    if module is stack_of(model.network).get_input_embeddings():
        return "embedding"
    if "type" in name:
        return "token type"
    return "position" if "pos" in name or name == "wpe" else name


def is_norm(module: nn.Module) -> bool:
    """Tell a norm by the name of its class."""
    return type(module).__name__.endswith("Norm") and not list(module.children())


def unknown_layout(model: AttentionModel, why: str) -> AttentionUnavailableError:
    """Make the error for a family whose residual stream cannot be decomposed."""
    return AttentionUnavailableError(
        f"The residual stream of the {model.family} family cannot be taken apart here: {why}. "
        "Choose a BERT, GPT-2, Llama or one of their relatives."
    )
