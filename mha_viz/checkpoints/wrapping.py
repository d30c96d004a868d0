"""A network that is in memory already, such as a fresh fine-tune, made ready to be looked at."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.checkpoints.loading import check_finite, check_stacks, tokenizer_notes
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError


def wrap(network: Any, tokenizer: Any, name: str = "") -> AttentionModel:
    """A transformers model in memory, ready to trace, measure and change.

    The network is used as it is, not copied: it is put into evaluation mode, and where its family
    allows it takes its attention from our function from now on. A short text is run both ways
    first, and where they do not agree the family's own weights are read instead (see `backend`
    of `AttentionModel`). Call `network.train()` before you train on.

    Args:
        network: a transformers `PreTrainedModel`, built with any attention, on any device. Its
            weights are not shared with a training that goes on meanwhile: trace between two steps.
        tokenizer: the transformers tokenizer that belongs to it.
        name: what captions call it; if not given, where it came from or the name of its class.

    Returns:
        AttentionModel.

    Raises:
        ArgumentError: not a transformers model, or not a tokenizer.
        BrokenCheckpointError: NaN or infinite weights.
        AttentionUnavailableError: its family gives no attention weights.

    >>> import transformers
    >>> import mha_viz as mv
    >>> sizes = transformers.BertConfig(hidden_size=20, num_hidden_layers=2, num_attention_heads=5)
    >>> model = mv.wrap(transformers.BertModel(sizes), mv.load("tiny-bert").tokenizer)
    >>> model.name, model.trace("The cat sat").pattern.shape
    ('BertModel', torch.Size([2, 5, 5, 5]))
    """
    if not isinstance(network, PreTrainedModel):
        adapted = " Call its merge_and_unload() first." if hasattr(network, "peft_config") else ""
        raise ArgumentError(
            "network must be a transformers model (PreTrainedModel), got "
            f"{_kind(network)}.{adapted}"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ArgumentError(
            "tokenizer must be the transformers tokenizer of this network "
            f"(PreTrainedTokenizerBase), got {_kind(tokenizer)}."
        )
    name = name or network.config.name_or_path or type(network).__name__
    check_stacks(network, name)
    check_finite(network, name)
    return AttentionModel(
        network, tokenizer, name=name, notes=tokenizer_notes(tokenizer, network.config)
    )


def _kind(given: Any) -> str:
    return f"the text {given!r:.40}" if isinstance(given, str) else type(given).__name__
