"""Networks in memory, made ready to trace: `mv.wrap`."""

from typing import Any

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.checkpoints.loaded_checks import (
    check_finite,
    check_stacks,
    language_notes,
    tokenizer_notes,
)
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError


def wrap(network: Any, tokenizer: Any = None, name: str = "") -> AttentionModel:
    """Make a transformers model in memory ready to trace, measure and change.

    The network is used as it is, not copied: it is put into evaluation mode, and where its family
    allows it takes its attention from our function from now on. A short text is run both ways
    first, and where they do not agree the family's own weights are read instead (see `backend`
    of `AttentionModel`). Call `network.train()` before you train on.

    Args:
        network: a transformers `PreTrainedModel`, built with any attention, on any device. Its
            weights are not shared with a training that goes on meanwhile: trace between two steps.
            Also what holds one: `torch.compile` of it, a transformers pipeline, a
            sentence-transformers model.
        tokenizer: the transformers tokenizer that belongs to it; that of the pipeline or of the
            sentence-transformers model if not given.
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
    network, tokenizer = _unwrapped(network, tokenizer)
    if not isinstance(network, PreTrainedModel):
        hint = ""
        if hasattr(network, "peft_config"):
            hint = " Call its merge_and_unload() first."
        elif isinstance(network, nn.Module):
            hint = " The weights of any other network: `with mv.capture(network) as taken`."
        raise ArgumentError(
            f"network must be a transformers model (PreTrainedModel), got {_kind(network)}.{hint}"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ArgumentError(
            "tokenizer must be the transformers tokenizer of this network "
            f"(PreTrainedTokenizerBase), got {_kind(tokenizer)}."
        )
    name = name or network.config.name_or_path or type(network).__name__
    check_stacks(network, name)
    check_finite(network, name)
    notes = (*tokenizer_notes(tokenizer, network.config), *language_notes(network))
    return AttentionModel(network, tokenizer, name=name, notes=notes)


def _unwrapped(network: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Take off what torch and other libraries put around a model; return it and its tokenizer."""
    network = getattr(network, "_orig_mod", network)  # of torch.compile
    if isinstance(network, nn.Sequential) and network and hasattr(network[0], "auto_model"):
        return network[0].auto_model, tokenizer or network.tokenizer  # of sentence-transformers
    model = getattr(network, "model", None)
    if isinstance(model, PreTrainedModel) and not isinstance(network, nn.Module):  # a pipeline
        return model, tokenizer or network.tokenizer
    return network, tokenizer


def _kind(value: Any) -> str:
    return f"the text {value!r:.40}" if isinstance(value, str) else type(value).__name__
