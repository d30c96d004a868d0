"""Which modules of a network write into its residual stream, and what their parts are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    """A module by its path, and what it writes at each of its calls within a pass, in order.

    An embedding and an MLP write their output. Of an output projection, a norm and any other
    projection the name is that of its bias.

    Args:
        path: from the network down.
        module: what stands there.
        writes: names of components; a module that several layers share has one for each.
    """

    path: str
    module: nn.Module
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """The modules that write into a residual stream or change it on its way.

    Args:
        embeddings: tables that the first stream is made of.
        outputs: the projections at the end of attention.
        mlps: what stands for a layer's MLP: itself, or its last projection.
        norms: all norms, those of queries and keys included.
        projections: what makes queries, keys and values, and what stands before or after all
            layers.
        layers: of each layer the path of its module; a module that is run again stands there again.
    """

    embeddings: tuple[Site, ...]
    outputs: tuple[Site, ...]
    mlps: tuple[Site, ...]
    norms: tuple[Site, ...]
    projections: tuple[Site, ...]
    layers: tuple[str, ...]

    @property
    def sites(self) -> tuple[Site, ...]:
        """All of them."""
        return self.embeddings + self.outputs + self.mlps + self.norms + self.projections

    def entering(self, calls: Mapping[str, Sequence[tuple[Any, Any]]]) -> list[Tensor]:
        """What enters each layer, and at the end what leaves the last one.

        Args:
            calls: of each layer's path, the input and output of every call.
        """
        turns = [self.layers[:i].count(path) for i, path in enumerate(self.layers)]
        found = [calls[path][turn][0] for path, turn in zip(self.layers, turns, strict=True)]
        last = calls[self.layers[-1]][-1][1]
        return [*found, last[0] if isinstance(last, tuple) else last]


def stack_of(network: Any) -> Any:
    """The stack of layers that is taken apart: the only one, or an encoder-decoder's encoder."""
    return network.get_encoder() if network.config.is_encoder_decoder else network.base_model


def layout_of(model: AttentionModel) -> Layout:
    """The layout of a model's first part.

    Raises:
        AttentionUnavailableError: the family computes its attention by itself, or lays its layers
            out in a way that is not known here.
        NotKeptError: its projections have names that are not known.
    """
    projections = model.layers()
    inside = set(stack_of(model.network).modules())
    paths = {module: path for path, module in model.network.named_modules() if module in inside}
    layers = tuple(_layer_path(model, paths[layer.module]) for layer in projections)
    outputs = [layer.modules()[2] for layer in projections]
    attention = {part for layer in projections for part in layer.module.modules()} - set(outputs)
    mlps = [_mlp(model, path, attention | set(outputs)) for path in dict.fromkeys(layers)]

    def site(module: nn.Module, name: str) -> Site:
        path = paths[module]
        mine = [i for i, layer in enumerate(layers) if path.startswith(f"{layer}.")]
        if mine:
            return Site(path, module, tuple(f"L{i} {name}" for i in mine))
        return Site(path, module, (("embedding " if "emb" in path else "final ") + name,))

    def of_embeddings(module: nn.Module) -> bool:
        """Outside of all layers, and no part of what some encoders add for classifiers."""
        path = paths[module]
        return "pooler" not in path and not any(path.startswith(f"{layer}.") for layer in layers)

    linear = [module for module in paths if isinstance(module, nn.Linear | Conv1D)]
    return Layout(
        embeddings=tuple(
            Site(path, module, (_embedding(model, module, path),))
            for module, path in paths.items()
            if isinstance(module, nn.Embedding) and of_embeddings(module)
        ),
        outputs=tuple(site(module, "attention bias") for module in dict.fromkeys(outputs)),
        mlps=tuple(site(module, "MLP") for module in mlps),
        norms=tuple(site(module, "norm bias") for module in paths if _is_norm(module)),
        projections=tuple(
            Site(paths[module], module, (PROJECTION_BIAS,))
            if module in attention
            else Site(paths[module], module, ("embedding projection bias",))
            for module in linear
            if module in attention or of_embeddings(module)
        ),
        layers=layers,
    )


def _layer_path(model: AttentionModel, path: str) -> str:
    """The layer that a module stands in: its path up to the first number."""
    found = re.match(r"(.*?\.)?\d+(?=\.)", path)
    if found is None:
        raise unknown_layout(model, f"its attention stands at {path!r}, in no numbered layer")
    return found[0]


def _mlp(model: AttentionModel, layer: str, attention: set[nn.Module]) -> nn.Module:
    """A layer's MLP, or where it has none in one piece the last projection that is not attention's.

    BERT and its relatives spread it over modules that also hold a norm.
    """
    whole = model.network.get_submodule(layer)
    for name in _MLP:
        module = getattr(whole, name, None)
        if isinstance(module, nn.Module) and not isinstance(module, nn.Linear | Conv1D):
            return module
    last = [
        module
        for module in whole.modules()
        if isinstance(module, nn.Linear | Conv1D) and module not in attention
    ]
    if not last:
        raise unknown_layout(model, f"no MLP was found in its layer {layer!r}")
    return last[-1]


def _embedding(model: AttentionModel, module: nn.Module, path: str) -> str:
    name = path.rpartition(".")[2]
    if module is stack_of(model.network).get_input_embeddings():
        return "embedding"
    if "type" in name:
        return "token type"
    return "position" if "pos" in name or name == "wpe" else name


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Norm") and not list(module.children())


def unknown_layout(model: AttentionModel, why: str) -> AttentionUnavailableError:
    """The error for a family whose residual stream cannot be taken apart here.

    Args:
        model: of that family.
        why: half a sentence.
    """
    return AttentionUnavailableError(
        f"The residual stream of the {model.family} family cannot be taken apart here: {why}. "
        "Choose a BERT, GPT-2, Llama or one of their relatives."
    )
