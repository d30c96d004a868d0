"""Norms between what one layer's heads write and what another layer reads.

Families call and place their norms differently. They are found by what one run of a short text
gave each of them.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from torch import nn

from mha_viz.circuits.attribution.layout import Site, unknown_layout
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.circuits.attribution.residual_sums import LayerCalls, residual_sums, same
from mha_viz.engine.model import AttentionModel
from mha_viz.text.encoding import encode_texts

_SAMPLE = "A short text."


class LayerNorms(NamedTuple):
    """The norms of one layer, and how it adds to the stream."""

    reading: Site | None  # before queries, keys and values; None where these read the stream
    mlp: Site | None  # before the MLP, likewise; may be the same
    writing: nn.Module | None  # behind W_O, before the sum
    passing: tuple[nn.Module, ...]  # in the stream itself
    factor: float  # on what heads write
    # whether the MLP reads what attention reads (GPT-NeoX); None where attention writes nothing
    parallel: bool | None


class StreamNorms(NamedTuple):
    """The norms of a stack of layers."""

    layers: tuple[LayerNorms, ...]
    # between the last sum and the output, (None,) for none; empty where that is not known
    final: tuple[Site | None, ...]
    # between embeddings and stream; None where more than norms stands there
    entering: tuple[nn.Module, ...] | None
    normed_heads: bool  # whether queries and keys are normed once more, head by head


_NORMS: WeakKeyDictionary[AttentionModel, StreamNorms] = WeakKeyDictionary()


def stream_norms(model: AttentionModel) -> StreamNorms:
    """Find the norms of a model's first part, once; AttentionUnavailableError where unknown."""
    if model in _NORMS:
        return _NORMS[model]
    attention = model.layers()
    stream = ResidualStream(model, encode_texts(model.reader, _SAMPLE)[0])
    layers = tuple(_of_layer(stream, layer) for layer in range(model.n_layers))
    layout, calls = stream.run.layout, stream.run.calls

    def called(sites: tuple[Site, ...], start: str) -> tuple[nn.Module, ...]:
        return tuple(s.module for s in sites if s.writes[0].startswith(start) and calls[s.module])

    between = {site.module for layer in layers for site in layer[:2] if site is not None}
    between |= {norm for layer in layers for norm in layer.passing}
    between |= {layer.writing for layer in layers if layer.writing is not None}
    inside = {part for layer in attention for part in layer.module.modules()} - between
    _NORMS[model] = StreamNorms(
        layers,
        final=() if any(layer.passing for layer in layers) else _final(stream),
        entering=None
        if called(layout.projections, "embedding ")
        else called(layout.norms, "embedding "),
        normed_heads=any(norm in inside for norm in called(layout.norms, "L")),
    )
    return _NORMS[model]


def _of_layer(stream: ResidualStream, layer: int) -> LayerNorms:
    """Find one layer's norms by its sums, and by what its queries and its MLP read."""
    heads, *_ = sums = residual_sums(stream, layer)
    passing = tuple(addition.passing.module for addition in sums if addition.passing is not None)
    writing = [norm.module for norm in heads.norms or () if norm is not heads.passing]
    layers, x, calls = stream.model.layers(), stream.entering(layer), LayerCalls(stream, layer)
    query, *_ = layers[layer].modules()
    turn = sum(other.modules()[0] is query for other in layers[:layer])
    read = stream.run.calls[query][turn][0]
    reading = [site for site, norm_input, y in calls.norms if same(norm_input, x) and same(read, y)]
    if not reading and not same(read, x):
        raise unknown_layout(stream.model, f"what queries of layer {layer} read is not known")
    middle = x if len(sums) == 1 else heads.total
    before_mlp = [(site, y) for site, norm_input, y in calls.norms if same(norm_input, middle)]
    # Where the MLP is in pieces (OPT), its last one does not read a norm.
    mlp = [site for site, y in before_mlp if same(calls.mlp_reads, y)] or [
        site for site, _ in before_mlp
    ]
    return LayerNorms(
        reading=reading[0] if reading else None,
        # Two norms of one stream give the same numbers before they are trained.
        mlp=mlp[-1] if mlp else None,
        writing=writing[0] if writing else None,
        passing=passing,
        factor=heads.factor,
        parallel=None if same(heads.total, x) else len(sums) == 1,
    )


def _final(stream: ResidualStream) -> tuple[Site | None, ...]:
    """Find the norm behind the last layer: none where the stack gives its stream itself."""
    last_stream, run = stream.entering(stream.model.n_layers), stream.run
    output = run.output.last_hidden_state[0]
    for site in run.layout.norms:
        if site.writes[0].startswith("final ") and run.calls[site.module]:
            x, y = run.calls[site.module][0]
            if same(x, last_stream) and y is not None and same(output, y):
                return (site,)
    return (None,) if same(output, last_stream) else ()
