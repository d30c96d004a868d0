"""A family's own attention weights, accepted only as weights of every query and key."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.probe import Layers
from mha_viz.errors import AttentionUnavailableError
from mha_viz.text.tokens import Encoded

_INSTEAD = "Choose a BERT, GPT-2, Llama, T5 or another softmax-attention model."


def own_weights(attentions: Any, network: PreTrainedModel) -> dict[str, Layers]:
    """Return the attentions of a run, checked to have four axes in each layer."""
    if attentions and all(layer is not None and layer.ndim == 4 for layer in attentions):
        return {"pattern": list(attentions)}
    family, built = network.config.model_type, network.config._attn_implementation
    if built not in ("eager", IMPLEMENTATION):
        raise AttentionUnavailableError(
            f"This {type(network).__name__} was built with {built!r} attention, which gives no "
            "attention weights, and takes no other any more: build it with "
            'attn_implementation="eager".'
        )
    raise AttentionUnavailableError(
        f"The {family} family gives no attention weights (batch, head, query, key), neither "
        f"through our attention function nor through output_attentions. {_INSTEAD}"
    )


def check_own_weights(
    layers: Layers, queries: Sequence[Encoded], keys: Sequence[Encoded], family: str
) -> None:
    """Check weights over each text's own tokens: the length of each axis, and row sums of 1.

    Longformer's last axis holds offsets in a window, Funnel and CANINE shorten their texts from
    layer to layer, SqueezeBERT gives scores: drawn by query and key, all of these would mislead.
    """
    n, m = (max(len(text.input_ids) for text in texts) for texts in (queries, keys))
    expected = torch.Size((len(queries), layers[0].shape[1], n, m))
    for layer in layers:
        if layer.shape != expected:
            raise AttentionUnavailableError(
                f"The {family} family gives attention weights of shape {tuple(layer.shape)} where "
                f"a weight for every query and key has shape {tuple(expected)} (batch, head, "
                f"query, key): they cannot be shown over the text's tokens. {_INSTEAD}"
            )
        for row, (query, key) in enumerate(zip(queries, keys, strict=True)):
            own = layer[row, :, : len(query.input_ids), : len(key.input_ids)].float()
            _check_rows(own, rounding(layer.dtype), family)


def rounding(dtype: torch.dtype) -> float:
    """Return how far apart two ways to compute the same weights may be in a precision."""
    return 1e-4 if torch.finfo(dtype).bits >= 32 else 0.03


def _check_rows(own: Tensor, tolerance: float, family: str) -> None:
    sums = own.sum(-1)
    wrong = ~((sums - 1).abs() <= tolerance)  # NaN, too
    if bool(wrong.any()) or bool((own < -tolerance).any()):
        found = (
            f"sum to {float(sums[wrong][0]):.4g}, not to 1"
            if bool(wrong.any())
            else f"hold {float(own.min()):.4g}, which no weight is"
        )
        raise AttentionUnavailableError(
            f"What the {family} family gives as attention weights are none by query and key: a "
            f"row's weights over the text's tokens {found}. {_INSTEAD}"
        )
