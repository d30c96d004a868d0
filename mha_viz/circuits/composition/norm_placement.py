"""Norms between what one layer's heads write and what another layer's heads read.

Families call and place their norms differently. They are found by what one run of a short text
gave each of them.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn

from mha_viz.circuits.attribution.layout import Site, unknown_layout
from mha_viz.circuits.attribution.linear_maps import LinearNorm
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.circuits.attribution.residual_sums import LayerCalls, residual_sums, same
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, NotKeptError
from mha_viz.text.encoding import encode_texts

_SAMPLE = "A short text."


@dataclass(frozen=True, eq=False)
class NormPlacement:
    """The norms of a stack of layers, as their linear parts."""

    # before queries, keys and values of each layer; None where it reads the stream itself
    reading: tuple[LinearNorm | None, ...]
    writing: tuple[LinearNorm | None, ...]  # behind W_O of each layer, before the sum; mostly None
    # in the stream between a layer's heads and the next layer; empty where norms stand beside it
    passing: tuple[tuple[LinearNorm, ...], ...]
    # between the last sum and the output, (None,) for none; empty where that is not known
    final: tuple[LinearNorm | None, ...]
    # between embeddings and stream; None where more than norms stands there
    entering: tuple[LinearNorm, ...] | None
    normed_heads: bool  # whether queries and keys are normed once more, head by head
    rotary: bool  # whether queries and keys are turned by their positions

    @property
    def centred(self) -> bool:
        """True if nothing behind the first layer sees the mean of what was written."""
        behind = self.reading[1:]
        return not any(self.passing) and all(norm is not None and norm.centred for norm in behind)


class _LayerNorms(NamedTuple):
    """The norms of one layer, still as modules."""

    reading: nn.Module | None
    writing: nn.Module | None
    passing: tuple[nn.Module, ...]


class _Norms(NamedTuple):
    """The norms of a stack as modules; their gains are read anew each time, as they may change."""

    layers: tuple[_LayerNorms, ...]
    final: tuple[nn.Module | None, ...]
    entering: tuple[nn.Module, ...] | None
    normed_heads: bool


_NORMS: WeakKeyDictionary[AttentionModel, _Norms] = WeakKeyDictionary()


def norm_placement(model: AttentionModel, dtype: torch.dtype) -> NormPlacement:
    """Find the norms between the layers of a model's first part; NotKeptError where unknown."""
    if model not in _NORMS:
        _NORMS[model] = _norms(model)
    norms = _NORMS[model]

    @cache  # layers may share a norm
    def linear(norm: nn.Module) -> LinearNorm:
        return LinearNorm.of_weights(norm, dtype)

    def each(norms: tuple[nn.Module | None, ...]) -> tuple[LinearNorm | None, ...]:
        return tuple(None if norm is None else linear(norm) for norm in norms)

    return NormPlacement(
        reading=each(tuple(layer.reading for layer in norms.layers)),
        writing=each(tuple(layer.writing for layer in norms.layers)),
        passing=tuple(tuple(map(linear, layer.passing)) for layer in norms.layers),
        final=each(norms.final),
        entering=None if norms.entering is None else tuple(map(linear, norms.entering)),
        normed_heads=norms.normed_heads,
        rotary=model.is_rotary,
    )


def _norms(model: AttentionModel) -> _Norms:
    attention = model.layers()  # AttentionUnavailableError where it is not ours
    try:
        stream = ResidualStream(model, encode_texts(model.reader, _SAMPLE)[0])
        layers = tuple(_of_layer(stream, layer) for layer in range(model.n_layers))
        layout, calls = stream.run.layout, stream.run.calls
    except AttentionUnavailableError as error:
        raise NotKeptError(f"The norms of {model.name} cannot be found. {error}") from error

    def called(sites: tuple[Site, ...], start: str) -> tuple[nn.Module, ...]:
        return tuple(s.module for s in sites if s.writes[0].startswith(start) and calls[s.module])

    between = {norm for layer in layers for norm in (*layer[:2], *layer.passing)}
    inside = {part for layer in attention for part in layer.module.modules()} - between
    projected = called(layout.projections, "embedding ")
    return _Norms(
        layers,
        final=() if any(layer.passing for layer in layers) else _final(stream),
        entering=None if projected else called(layout.norms, "embedding "),
        normed_heads=any(norm in inside for norm in called(layout.norms, "L")),
    )


def _of_layer(stream: ResidualStream, layer: int) -> _LayerNorms:
    """Find one layer's norms by its sums, and by what its queries are made from."""
    heads, *_ = sums = residual_sums(stream, layer)
    if heads.factor != 1:
        raise unknown_layout(stream.model, "it adds a multiple of what its heads write")
    passing = tuple(one.passing.module for one in sums if one.passing is not None)
    writing = [norm.module for norm in heads.norms or () if norm is not heads.passing]
    layers, x = stream.model.layers(), stream.whole(layer)
    query, *_ = layers[layer].modules()
    turn = sum(other.modules()[0] is query for other in layers[:layer])
    read = stream.run.calls[query][turn][0]
    norms = LayerCalls(stream, layer).norms
    reading = next((s.module for s, given, y in norms if same(given, x) and same(read, y)), None)
    if reading is None and not same(read, x):
        raise unknown_layout(stream.model, f"what queries of layer {layer} read is not known")
    return _LayerNorms(reading, writing[0] if writing else None, passing)


def _final(stream: ResidualStream) -> tuple[nn.Module | None, ...]:
    """Find the norm behind the last layer: none where the stack gives its stream itself."""
    whole, run = stream.whole(stream.model.n_layers), stream.run
    output = run.output.last_hidden_state[0]
    for site in run.layout.norms:
        if site.writes[0].startswith("final ") and run.calls[site.module]:
            x, y = run.calls[site.module][0]
            if same(x, whole) and y is not None and same(output, y):
                return (site.module,)
    return (None,) if same(output, whole) else ()
