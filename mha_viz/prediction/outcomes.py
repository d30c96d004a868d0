"""Names and numbers of what a network predicts: tokens of a vocabulary, classes, ends of answers.

`outcome_logits` says which places a kind of network predicts at, and which outcomes each has.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from mha_viz.core.record.attention_record import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction.logits import OF_TEXTS, Objective, logits, objective
from mha_viz.text import encoding
from mha_viz.text.tokens import Encoded

End = Literal["start", "end"]
ENDS: tuple[End, End] = ("start", "end")
# The right outcome of a text: a label or a number; "3:PER" or "end:7" for one place; or a mapping
# from places to outcomes. None: what the model itself takes for right.
Label = str | int | Mapping[Any, Any] | None
_UNITS = {"class": "nats per text", "multi_label": "nats per label", "answer": "nats per end"}


def unit_of(kind: Objective) -> str:
    """Return the unit of a mean loss."""
    return (
        "units of the predicted number"
        if kind == "regression"
        else _UNITS.get(kind, "nats per token")
    )


def labels_of(
    model: AttentionModel, numbers: Sequence[int], tokens: Sequence[Token] = ()
) -> tuple[str, ...]:
    """Label tokens of the vocabulary, classes by the config's `id2label`, or a text's own `tokens`.

    These are the outcomes of a question answerer.
    """
    kind = objective(model.network)
    if kind == "answer":
        return tuple(tokens[number].text for number in numbers)
    if kind in (*OF_TEXTS, "token_class"):
        names = class_names(model.network)
        return tuple(names[number] for number in numbers)
    return tuple(encoding.label_of(model.tokenizer, number) for number in numbers)


def continuing(
    model: AttentionModel, numbers: Sequence[int], tokens: Sequence[Token] = ()
) -> tuple[bool, ...]:
    """Return which of these outcomes are tokens that continue the word before them."""
    kind = objective(model.network)
    if kind in (*OF_TEXTS, "token_class"):
        return (False,) * len(numbers)
    if kind == "answer":
        numbers = [tokens[number].id for number in numbers]
    return encoding.continuing(model.tokenizer, numbers)


def number_of(model: AttentionModel, target: str | int, spaced: bool = True) -> int:
    """Return the number of a token (see `id_of`), or of a class by its label or number.

    Raises ArgumentError: no such token or class.
    """
    kind = objective(model.network)
    if kind == "regression":
        raise ArgumentError(f"{model.name} predicts one number: leave out target and label.")
    if kind not in (*OF_TEXTS, "token_class"):
        return encoding.id_of(model.tokenizer, target, spaced)
    names = class_names(model.network)
    if isinstance(target, str) and names.count(target) == 1:
        return names.index(target)
    if isinstance(target, str) and target.isdecimal():
        target = int(target)
    is_number = isinstance(target, int) and not isinstance(target, bool)
    if is_number and 0 <= int(target) < len(names):
        return int(target)
    listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    raise ArgumentError(
        f"{model.name} predicts one of {len(names)} classes ({listed}): give a label or a number "
        f"in 0..{len(names) - 1}, got {target!r}."
    )


def class_names(network: PreTrainedModel) -> list[str]:
    """Return the names of a classifier's labels, by number."""
    names: dict[int, Any] = network.config.id2label
    return [str(names.get(i, f"LABEL_{i}")) for i in range(network.config.num_labels)]


def class_position(model: AttentionModel, encoded: Encoded) -> int:
    """Return the token that a class is read at: the first of an encoder, the last of a decoder.

    Decoders skip padding tokens that stand in the text itself at its end.
    """
    if not model.causal:
        return 0
    pad = model.network.config.get_text_config().pad_token_id
    token_positions = [i for i, number in enumerate(encoded.input_ids) if number != pad]
    return token_positions[-1] if token_positions else 0


def own_tokens(tokens: Sequence[Token]) -> list[int]:
    """Return the positions of a text's own tokens, in both of its segments.

    Raises TextError: it has none.
    """
    return _some([i for i, token in enumerate(tokens) if not token.is_special])


def context_tokens(tokens: Sequence[Token]) -> list[int]:
    """Return the positions at which an answer may start or end: those of the second segment.

    Of a single text all of its own. Raises TextError: there is none.
    """
    segment = max(token.segment for token in tokens)
    positions = [
        i for i, token in enumerate(tokens) if not token.is_special and token.segment == segment
    ]
    return _some(positions)


def _some(positions: list[int]) -> list[int]:
    if not positions:
        raise TextError("This text has no token of its own to predict anything about: write more.")
    return positions


def end_and_position(target: str | int, tokens: Sequence[Token]) -> tuple[End, int | None]:
    """Read which end of an answer is followed, and at which token; None for the likeliest.

    >>> end_and_position("end", ())
    ('end', None)
    """
    end, _, position = (target if isinstance(target, str) else f"start:{target}").partition(":")
    known_end: End = "end" if end == "end" else "start"
    if end in ENDS and not position:
        return known_end, None
    if end in ENDS and position.isdecimal() and int(position) < len(tokens):
        return known_end, int(position)
    raise ArgumentError(
        'This model predicts where an answer starts and ends: give "start", "end", or a token as '
        f'"start:7" or "end:7", with numbers in 0..{len(tokens) - 1}, got {target!r}.'
    )


# -- right outcomes of a whole text ---------------------------------------------------------------


def right_outcomes(
    model: AttentionModel, encoded: Encoded, label: Label
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the places of a text that a classifier is judged at, and the right outcome of each.

    Args:
        model: a classifier of texts or tokens, or a question answerer.
        encoded: the text.
        label: None takes all places, each with the outcome that the model itself finds likeliest.
            Classes: a label. Several labels: one that is right, or a mapping from labels to True
            or False. Classes of tokens: "3:PER" or {3: "PER", 4: "O"}. Answers: "start", "end",
            "end:7" or {"start": 5, "end": 7}.

    Raises:
        ArgumentError: no such place or outcome.
    """
    kind = objective(model.network)
    if kind == "regression":
        if label is not None:
            raise ArgumentError(f"{model.name} predicts one number: leave out labels.")
        return (0,), (0,)
    labelled = _positions_of(model, encoded, label)
    if not labelled:
        raise ArgumentError("labels has no place in it: leave it out for all places.")
    own_outcomes = _own_outcomes(model, encoded) if None in labelled.values() else {}
    right = {
        position: own_outcomes[position] if outcome is None else outcome
        for position, outcome in labelled.items()
    }
    return tuple(right), tuple(right.values())


def _positions_of(model: AttentionModel, encoded: Encoded, label: Label) -> dict[int, int | None]:
    """Return the number of the right outcome at each place; None for the model's own."""
    kind, tokens = objective(model.network), encoded.tokens
    if kind == "answer":
        if label is None:
            return {0: None, 1: None}
        each: list[str | int] = [label] if isinstance(label, str | int) else []
        if isinstance(label, Mapping):
            each = [f"{end}:{position}" for end, position in label.items()]
        read = (end_and_position(end_label, tokens) for end_label in each)
        return {ENDS.index(end): position for end, position in read}
    if kind == "multi_label":
        if label is None:
            return dict.fromkeys(range(model.network.config.num_labels))
        are_right = label if isinstance(label, Mapping) else {label: True}
        return {number_of(model, name): int(bool(is_so)) for name, is_so in are_right.items()}
    if kind == "token_class":
        return _classes_of_tokens(model, tokens, label)
    if isinstance(label, Mapping):
        raise ArgumentError(f"{model.name} predicts one class of a text: give its label.")
    return {0: None if label is None else number_of(model, label)}


def _classes_of_tokens(
    model: AttentionModel, tokens: Sequence[Token], label: Label
) -> dict[int, int | None]:
    if label is None:
        return dict.fromkeys(own_tokens(tokens))
    if not isinstance(label, Mapping):
        position, colon, name = str(label).partition(":")
        if not colon or not position.isdecimal():
            raise ArgumentError(
                f"{model.name} predicts a class of each token: give a token's number and a label, "
                f'as in "3:{class_names(model.network)[0]}", got {label!r}.'
            )
        label = {int(position): name}
    outside = [position for position in label if position not in range(len(tokens))]
    if outside:
        raise ArgumentError(f"Tokens must lie in 0..{len(tokens) - 1}, got {list(label)}.")
    return {position: number_of(model, name) for position, name in label.items()}


@torch.inference_mode()
def _own_outcomes(model: AttentionModel, encoded: Encoded) -> dict[int, int]:
    text_logits = logits(model.network, [encoded])[0]
    if objective(model.network) == "answer":
        text_logits = within(text_logits, context_tokens(encoded.tokens))
    return dict(enumerate(text_logits.argmax(-1).tolist()))


def within(
    all_logits: Float[Tensor, "*predicted outcome"], outcomes: Sequence[int]
) -> Float[Tensor, "*predicted outcome"]:
    """Return logits in which all outcomes but these are impossible."""
    allowed = torch.full_like(all_logits, -torch.inf)
    allowed[..., outcomes] = all_logits[..., outcomes]
    return allowed
