"""How long a text a network takes, by its config, its position embeddings and its tokenizer."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase


def longest_text(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The longest text in tokens that config and tokenizer allow; 512 where neither says."""
    config = network.config.get_text_config()
    found = [
        value
        for name in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
        if isinstance(value := getattr(config, name, None), int) and value > 0
    ]
    limit = min(found, default=512)
    for module in network.modules():
        # RoBERTa and its relatives count positions from padding_idx + 1.
        positions = getattr(module, "position_embeddings", None)
        if isinstance(positions, nn.Embedding):
            if positions.padding_idx is not None:
                limit = min(limit, positions.num_embeddings - positions.padding_idx - 1)
            break
    known = tokenizer.model_max_length
    return min(limit, known) if 0 < known < 10**9 else limit
