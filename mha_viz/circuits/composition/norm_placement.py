"""Norms between heads of different layers, as their linear parts."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from mha_viz.circuits.attribution.layout import Site, unknown_layout
from mha_viz.circuits.attribution.linear_maps import LinearNorm
from mha_viz.circuits.attribution.stream_norms import stream_norms
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, NotKeptError


@dataclass(frozen=True, eq=False)
class NormPlacement:
    """The norms of a stack of layers, as their linear parts; see `StreamNorms`."""

    # before queries, keys and values of each layer; None where it reads the stream itself
    reading: tuple[LinearNorm | None, ...]
    writing: tuple[LinearNorm | None, ...]  # behind W_O of each layer, before the sum; mostly None
    # in the stream between a layer's heads and the next layer; empty where norms stand beside it
    passing: tuple[tuple[LinearNorm, ...], ...]
    final: tuple[LinearNorm | None, ...]
    entering: tuple[LinearNorm, ...] | None
    normed_heads: bool
    rotary: bool  # whether queries and keys are turned by their positions

    @property
    def centred(self) -> bool:
        """True if nothing behind the first layer sees the mean of what was written."""
        behind = self.reading[1:]
        return not any(self.passing) and all(norm is not None and norm.centred for norm in behind)


def norm_placement(model: AttentionModel, dtype: torch.dtype) -> NormPlacement:
    """Find the norms between the layers of a model's first part; NotKeptError where unknown.

    Their gains are read anew each time, as they may change.
    """
    model.layers()  # AttentionUnavailableError where attention is not ours
    try:
        norms = stream_norms(model)
        if any(layer.factor != 1 for layer in norms.layers):
            raise unknown_layout(model, "it adds a multiple of what its heads write")
    except AttentionUnavailableError as error:
        raise NotKeptError(f"The norms of {model.name} cannot be found. {error}") from error

    @cache  # layers may share a norm
    def linear(norm: nn.Module) -> LinearNorm:
        return LinearNorm.of_weights(norm, dtype)

    def each(norms: Iterable[Site | nn.Module | None]) -> tuple[LinearNorm | None, ...]:
        modules = (norm.module if isinstance(norm, Site) else norm for norm in norms)
        return tuple(None if norm is None else linear(norm) for norm in modules)

    return NormPlacement(
        reading=each(layer.reading for layer in norms.layers),
        writing=each(layer.writing for layer in norms.layers),
        passing=tuple(tuple(map(linear, layer.passing)) for layer in norms.layers),
        final=each(norms.final),
        entering=None if norms.entering is None else tuple(map(linear, norms.entering)),
        normed_heads=norms.normed_heads,
        rotary=model.is_rotary,
    )
