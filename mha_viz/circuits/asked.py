"""What a caller asked for: where the model predicts, which token, which head; checked."""

from __future__ import annotations

from mha_viz.circuits.readout import Readout, readout
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.logits import check_predicts
from mha_viz.prediction.masking import own_mask
from mha_viz.prediction.prediction import places_to_predict, spaced_at
from mha_viz.text.encoding import encode_texts
from mha_viz.text.vocabulary import id_of


def read_at(model: AttentionModel, text: str, position: int | None) -> tuple[Readout, int]:
    """A run of a text, taken apart where the model predicts; and which token that is.

    Args:
        model: a causal or masked language model.
        text: as for `logit_attribution`.
        position: as for `logit_attribution`.
    """
    kind = check_predicts(model.network)
    typed = text if kind == "causal" else own_mask(model, text)
    whole, _ = encode_texts(model.reader, typed)
    encoded, places = places_to_predict(model, kind, whole, position)
    return readout(model, encoded, places[0]), places[0]


def token_number(model: AttentionModel, made: Readout, place: int, token: str | int | None) -> int:
    """A token as its number in the vocabulary; the model's first choice where none is given.

    Args:
        model: whose vocabulary.
        made: its run.
        place: where it predicts.
        token: as for `logit_attribution`.

    Raises:
        ArgumentError: no such token, or several.
    """
    if token is None:
        return int(made.logits.argmax())
    encoded = made.stream.encoded
    at = encoded.tokens[place]
    text = (encoded.text_pair if at.segment else encoded.text) or ""
    number = id_of(model.tokenizer, token, spaced_at(check_predicts(model.network), at, text))
    if number >= len(made.logits):
        raise ArgumentError(f"{model.name} gives no logit to token {number}.")
    return number


def check_index(name: str, given: object, n: int) -> int:
    """A whole number in 0..n - 1.

    Args:
        name: what it counts, for the error.
        given: by the caller.
        n: how many there are.

    Raises:
        ArgumentError: anything else.
    """
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < n:
        raise ArgumentError(f"{name} must lie in 0..{n - 1}, got {given!r}.")
    return given
