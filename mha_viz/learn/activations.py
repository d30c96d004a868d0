"""The activations of one layer's attention on a record's text, and its weights as one value."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.layer_activations import LayerActivations as LayerActivations
from mha_viz.engine.layer_activations import layer_activations
from mha_viz.engine.model import AttentionModel

MATRICES = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")


def record_activations(
    model: AttentionModel, record: AttentionRecord, layer: int
) -> LayerActivations:
    """Run a record's text once more, and read the inputs and outputs of one layer.

    Raises:
        ArgumentError: no such layer. NotKeptError, AttentionUnavailableError: this family's
            projections are not known.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> tuple(record_activations(model, model.trace("The cat sat."), 0).X.shape)
    (4, 256)
    """
    return layer_activations(model, record.text, record.text_pair, layer=layer, part=record.part)


def spread(weights: AttentionWeights) -> AttentionWeights:
    """Copy the weights to float32 on the CPU, with a key and value head for every query head."""
    n_heads = len(weights.W_Q)

    def copied(name: str) -> Tensor | None:
        matrix: Tensor | None = getattr(weights, name)
        if matrix is None:
            return None
        matrix = matrix.detach().to("cpu", torch.float32)
        shared = name[-1] in "KV" and len(matrix) != n_heads
        return matrix.repeat_interleave(n_heads // len(matrix), 0) if shared else matrix

    matrices: dict[str, Any] = {name: copied(name) for name in MATRICES}
    return replace(weights, **matrices)
