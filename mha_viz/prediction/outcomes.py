"""Names and numbers of what a network predicts: tokens of its vocabulary, or classes of texts."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.logits import logits, objective
from mha_viz.text import encoding
from mha_viz.text.tokens import Encoded


def labels_of(model: AttentionModel, numbers: Sequence[int]) -> tuple[str, ...]:
    """Label tokens of the vocabulary as in a record, classes as the config does (`id2label`)."""
    if objective(model.network) == "class":
        names = _class_names(model.network)
        return tuple(names[number] for number in numbers)
    return tuple(encoding.label_of(model.tokenizer, number) for number in numbers)


def continuing(model: AttentionModel, numbers: Sequence[int]) -> tuple[bool, ...]:
    """Return which of these tokens continue the word before them; no class does."""
    if objective(model.network) == "class":
        return (False,) * len(numbers)
    return encoding.continuing(model.tokenizer, numbers)


def number_of(model: AttentionModel, target: str | int, spaced: bool = True) -> int:
    """Return the number of a token (see `id_of`), or of a class by its label or number.

    Raises ArgumentError: no such token or class.
    """
    if objective(model.network) != "class":
        return encoding.id_of(model.tokenizer, target, spaced)
    names = _class_names(model.network)
    if isinstance(target, str) and names.count(target) == 1:
        return names.index(target)
    is_number = isinstance(target, int) and not isinstance(target, bool)
    if is_number and 0 <= int(target) < len(names):
        return int(target)
    known = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    raise ArgumentError(
        f"{model.name} predicts one of {len(names)} classes ({known}): give a label or a number "
        f"in 0..{len(names) - 1}, got {target!r}."
    )


def class_position(model: AttentionModel, encoded: Encoded) -> int:
    """Return the token that a class is read at: the first of an encoder, the last of a decoder.

    Decoders skip padding tokens that stand in the text itself at its end.
    """
    if not model.causal:
        return 0
    pad = model.network.config.get_text_config().pad_token_id
    places = [i for i, number in enumerate(encoded.input_ids) if number != pad]
    return places[-1] if places else 0


@torch.inference_mode()
def likeliest_class(model: AttentionModel, encoded: Encoded) -> int:
    """Return the number of the class that the model itself gives a text."""
    return int(logits(model.network, [encoded])[0, 0].argmax())


def _class_names(network: PreTrainedModel) -> list[str]:
    names: dict[int, Any] = network.config.id2label
    return [str(names.get(i, f"LABEL_{i}")) for i in range(network.config.num_labels)]
