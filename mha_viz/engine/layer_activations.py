"""The inputs and the output of one layer's attention, taken from the model itself."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.module_proxies import CallRecorder, with_replaced
from mha_viz.engine.run import run
from mha_viz.text.encoding import encode_texts


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
    run(
        with_replaced(model.network, recorders),
        model.backend,
        [source],
        None if target is None else [target],
        pad=model.tokenizer.pad_token_id or 0,
    )
    # A family may run one module again and again: the call that is this layer's.
    turn = sum(other.module is layers[layer].module for other in layers[:layer])
    ends = zip((query, key, output), (0, 0, 1), strict=True)
    X, Y, made = (recorders[module].calls[turn][end].flatten(0, -2) for module, end in ends)
    return LayerActivations(_plain(X), _plain(Y), _plain(made))


def _plain(tensor: Tensor) -> Tensor:
    """Copy to float32 on the CPU, out of inference mode."""
    return tensor.detach().to("cpu", torch.float32, copy=True)
