"""Prediction of a token of a text, with every head as it is or with some changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import Number
from mha_viz.core.record.record import Token
from mha_viz.engine.head_changes import Gates, head_edits
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction import outcomes
from mha_viz.prediction.logits import (
    Forward,
    Objective,
    causal_losses,
    check_predicts,
    logits,
    mask_token_at,
    masked_losses,
    replace_mask,
)
from mha_viz.text.cleaning import visible
from mha_viz.text.encoding import encode_texts, text_notes
from mha_viz.text.tokens import Encoded

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Prediction:
    """The distribution over the vocabulary at one place of a text, and the loss of its tokens."""

    # "causal" (what follows the token at `position`), "masked" (what stands at it) or "class" (of
    # the whole text; `position` is then where the class is read: 0, or a decoder's last token).
    objective: Objective
    position: int  # index in `tokens`, 0-based
    tokens: tuple[Token, ...]  # the text's, labelled as in a record; a masked one is "[MASK]"
    # candidates, ids, probabilities: the likeliest tokens, likeliest first: labels, numbers in the
    # vocabulary, probabilities in [0, 1]. Two tokens may have one label: "ing" as a word and as its
    # end; `continues` says which ones continue the word before them. Of a classifier: the labels
    # and numbers of its classes, and `log_probs` (class).
    candidates: tuple[str, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    continues: tuple[bool, ...]
    entropy: float  # of the whole distribution, nats, in [0, ln d_vocab]
    # for each of `tokens` -ln p(it), nats; None where the model says nothing about it. Causal:
    # given what is before it. Masked: with it alone masked, where requested.
    losses: tuple[float | None, ...]
    log_probs: Float[Tensor, " d_vocab"]  # float32 (d_vocab), natural logarithms, at temperature 1
    # display_temperature, displayed: probabilities of `ids` at another temperature, to be looked at
    # only; every other number here is at temperature 1.
    display_temperature: float = 1.0
    displayed: tuple[float, ...] = ()
    masks: tuple[int, ...] = ()  # where [MASK] stands in the text; () for a causal model
    others: tuple[Prediction, ...] = ()  # predictions at the other masks, in their order
    model: str = ""  # model, text, text_pair, notes: as in a record
    text: str = ""
    text_pair: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def loss(self) -> float | None:
        """The mean of the losses that there are, nats per token; None where there is none."""
        return mean_known(self.losses)

    @property
    def spaced(self) -> bool:
        """True where a word at the predicted place has a space before it (see `id_of`)."""
        return spaced_at(self.objective, self, self.position)

    def table(self) -> pd.DataFrame:
        """Return a row per candidate: token, id, probability, log_probability, continues_word.

        And `displayed` where the display temperature is not 1.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            "token": self.candidates,
            "id": self.ids,
            "probability": self.probabilities,
            "log_probability": self.log_probs[list(self.ids)].tolist(),
            "continues_word": self.continues,
        }
        if self.display_temperature != 1:
            columns["displayed"] = self.displayed
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        best = ", ".join(
            f"{label} {p:.3f}"
            for label, p in zip(self.candidates[:3], self.probabilities, strict=False)
        )
        return f"Prediction({visible(self.text)!r}, position={self.position}, {best}, ...)"


@torch.no_grad()
def predict(
    model: AttentionModel,
    text: str,
    gates: Gates | None = None,
    intervention: Intervention | None = None,
    top_k: int = 10,
    position: int | None = None,
    temperature: Number = 1.0,
    text_pair: str | None = None,
    pseudo_loss: bool = False,
) -> Prediction:
    """Predict the next token (causal model), the token at [MASK] (masked model), or a text's class.

    p = softmax(logits) at one position, or over the classes of a ...ForSequenceClassification.

    Args:
        model: a causal or masked language model, or a classifier of one class of several.
        text: for a masked model with [MASK] in it, or with `position`.
        gates: factors (layer, head) on each head's z; 1 leaves a head, 0 takes it away.
        intervention: what else happens to some heads; gates scale its result.
        top_k: how many candidates, 1 or more.
        position: causal: after which token (the last one if not given). Masked: at which token;
            one that is not [MASK] is masked first; the first [MASK] if not given. Negative
            numbers count from the end. Classifiers: none.
        temperature: above 0; for `displayed` alone: softmax(logits / temperature).
        text_pair: second segment, for models that take one.
        pseudo_loss: masked models: also each token's loss, masked in turn: a forward pass of
            its own for every token, in batches.

    Returns:
        Prediction; probabilities in [0, 1], entropy and losses in nats.

    Raises:
        AttentionUnavailableError: no prediction head, or heads that cannot be changed.
        TextError: a masked model and no [MASK]; text that cannot be used.
        ArgumentError, ShapeError: no such position or head; gates that are not finite.

    Source: the loss of masked models is Salazar et al. 2020's pseudo-log-likelihood, one token
    at a time and with the sign changed.

    >>> import mha_viz as mv
    >>> found = predict(mv.load("tiny-gpt2"), "Once upon a", top_k=1)
    >>> found.candidates
    ('time',)
    """
    kind = check_predicts(model.network, classes=True)
    if kind != "masked" and pseudo_loss:
        why = "a class has none" if kind == "class" else "a causal one has a loss of its own"
        raise ArgumentError(f"pseudo_loss is for masked models: {why}.")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise ArgumentError(f"top_k must be a whole number of 1 or more, got {top_k!r}.")
    if not (math.isfinite(temperature) and temperature > 0):
        raise ArgumentError(f"temperature must be a finite number above 0, got {temperature}.")
    pair = None if text_pair is None else replace_mask(model, text_pair)
    whole, _ = encode_texts(model.reader, replace_mask(model, text), pair)
    encoded, places = places_to_predict(model, kind, whole, position)
    forward = _forward(model, gates, intervention, encoded)
    found = forward([encoded])[0]
    losses: tuple[float | None, ...] = (None,) * len(encoded.tokens)
    if kind == "causal":
        losses = causal_losses(found, encoded)
    elif pseudo_loss:
        losses = masked_losses(model, whole, forward)
    first, *others = [
        _prediction(
            *(model, kind, encoded, place),
            *(found[0 if kind == "class" else place], top_k, temperature, losses),
        )
        for place in places
    ]
    masks = tuple(sorted(places)) if kind == "masked" else ()
    return replace(first, masks=masks, others=tuple(replace(one, masks=masks) for one in others))


def spaced_at(kind: Objective, of: Prediction | Encoded, place: int) -> bool:
    """Return whether a word at the predicted place has a space before it (see `id_of`)."""
    at = of.tokens[place]
    text = (of.text_pair if at.segment else of.text) or ""
    if kind == "masked":
        return at.start is not None and text[: at.start][-1:].isspace()
    return at.end is not None and not text[: at.end][-1:].isspace()


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the numbers that are not None; None where there is none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def places_to_predict(
    model: AttentionModel, kind: Objective, encoded: Encoded, position: int | None
) -> tuple[Encoded, list[int]]:
    """Return the tokens to run, and the places: the chosen one first, then every other mask.

    Raises TextError: a masked model and no [MASK]. ArgumentError: no such position, or a special
    token.
    """
    n = len(encoded.tokens)
    if kind == "class":
        if position is not None:
            raise ArgumentError("A class is predicted for the whole text: leave out position.")
        return encoded, [outcomes.class_position(model, encoded)]
    if position is not None:
        if isinstance(position, bool) or not isinstance(position, int) or not -n <= position < n:
            raise ArgumentError(
                f"position must lie in 0..{n - 1}, the tokens of this text, got {position!r}."
            )
        position %= n
    if kind == "causal":
        return encoded, [n - 1 if position is None else position]
    mask = model.tokenizer.mask_token_id
    if position is not None and encoded.input_ids[position] != mask:
        if encoded.tokens[position].is_special:
            raise ArgumentError(
                f"Position {position} is {encoded.tokens[position].text}, which the model is never "
                "asked to predict: choose a token of the text."
            )
        encoded = mask_token_at(model, encoded, position)
    masks = [i for i, number in enumerate(encoded.input_ids) if number == mask]
    if not masks:
        cut = f" in its first {n} tokens, which is what it takes" if encoded.n_truncated else ""
        raise TextError(
            f"{model.name} predicts what stands at [MASK], and this text has none{cut}. Type "
            "[MASK] in place of a word, or choose a token to mask (position=)."
        )
    first = masks[0] if position is None else position
    return encoded, [first, *(i for i in masks if i != first)]


def _forward(
    model: AttentionModel, gates: Gates | None, intervention: Intervention | None, encoded: Encoded
) -> Forward:
    """Return a function of texts as long as `encoded` that gives logits with heads changed."""
    edits = head_edits(model, gates, intervention, texts=(encoded, None))
    pad = model.tokenizer.pad_token_id or 0

    def forward(texts: Sequence[Encoded]) -> Tensor:
        probe = None if edits is None else Probe((), edits=edits)
        return logits(model.network, texts, probe, pad=pad)

    return forward


def _prediction(
    model: AttentionModel,
    kind: Objective,
    encoded: Encoded,
    position: int,
    found: Float[Tensor, " d_vocab"],
    top_k: int,
    temperature: Number,
    losses: tuple[float | None, ...],
) -> Prediction:
    log_probs = found.float().log_softmax(-1).cpu()
    if log_probs.isnan().any():
        raise ArgumentError(
            "The model's numbers overflow with its heads changed so: take smaller factors."
        )
    ids = log_probs.topk(min(top_k, len(log_probs))).indices
    shown = (log_probs / temperature).softmax(-1)[ids]
    numbers = tuple(ids.tolist())
    return Prediction(
        objective=kind,
        position=position,
        tokens=encoded.tokens,
        candidates=outcomes.labels_of(model, numbers),
        ids=numbers,
        probabilities=tuple(log_probs[ids].exp().tolist()),
        continues=outcomes.continuing(model, numbers),
        entropy=float(torch.special.entr(log_probs.exp()).sum()),
        losses=losses,
        log_probs=log_probs,
        display_temperature=float(temperature),
        displayed=tuple(shown.tolist()),
        model=model.name,
        text=encoded.text,
        text_pair=encoded.text_pair,
        notes=model.notes + text_notes(model.name, encoded),
    )
