"""Prediction of a token of a text, with every head as it is or with some changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.arguments import renamed
from mha_viz.core.attention.checks import Number
from mha_viz.core.record.attention_record import Token
from mha_viz.engine.head_changes import Gates, head_edits
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction import outcomes
from mha_viz.prediction.distributions import entropy, log_probs_at
from mha_viz.prediction.logits import (
    OF_TEXTS,
    Forward,
    Objective,
    causal_losses,
    check_predicts,
    logits,
    mask_token_at,
    masked_losses,
    replace_mask,
)
from mha_viz.prediction.outcomes import ENDS, End
from mha_viz.text.cleaning import visible
from mha_viz.text.encoding import encode_texts, text_notes
from mha_viz.text.tokens import Encoded

if TYPE_CHECKING:
    import pandas as pd


NO_ANSWER = (
    "The likeliest {} is {}, which is no token of the context: the model finds no answer in it."
)


@renamed(others="other_predictions")
@dataclass(frozen=True, eq=False)
class Prediction:
    """The distribution over the vocabulary at one position of a text, and the loss of its tokens.

    Of a classifier the distribution over its classes, of a question answerer that over the tokens.
    """

    # "causal" (what follows the token at `position`), "masked" (what stands at it), "token_class"
    # (its class). Of the whole text "class", "multi_label" and "regression" (`position` is then
    # where they are read: 0, or a decoder's last token), "start" and "end" of an answer (0).
    objective: Objective | End
    position: int  # index in `tokens`, 0-based
    tokens: tuple[Token, ...]  # the text's, labelled as in a record; a masked one is "[MASK]"
    # candidates, ids, probabilities: the likeliest tokens, likeliest first: labels, numbers in the
    # vocabulary, probabilities in [0, 1]. Two tokens may have one label: "ing" as a word and as its
    # end; `continues` says which ones continue the word before them. Of a classifier: the labels
    # and numbers of its classes, and `log_probs` (class); several labels have a probability each,
    # by sigmoid. Of "start" and "end": tokens of the context and their positions, and `log_probs`
    # over all positions. None of a regression.
    candidates: tuple[str, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    continues: tuple[bool, ...]
    # of the whole distribution, nats, in [0, ln d_vocab]; of several labels the sum of each's.
    entropy: float
    # for each of `tokens` -ln p(it), nats; None where the model says nothing about it. Causal:
    # given what is before it. Masked: with it alone masked, where requested.
    losses: tuple[float | None, ...]
    log_probs: Float[Tensor, " d_vocab"]  # float32 (d_vocab), natural logarithms, at temperature 1
    # display_temperature, displayed: probabilities of `ids` at another temperature, to be looked at
    # only; every other number here is at temperature 1.
    display_temperature: float = 1.0
    displayed: tuple[float, ...] = ()
    masks: tuple[int, ...] = ()  # where [MASK] stands in the text; () for a causal model
    # predictions at the other masks (tokens of a token classifier), in their order; of "start" the
    # "end", and the other way round.
    other_predictions: tuple[Prediction, ...] = ()
    model: str = ""  # model, text, text_pair, notes: as in a record
    text: str = ""
    text_pair: str | None = None
    notes: tuple[str, ...] = ()
    value: float | None = None  # the number that a regression predicts; None of all others

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

        >>> import mha_viz as mv
        >>> mv.predict(mv.load("tiny-gpt2"), "Once upon a", top_k=2).table().token.tolist()[0]
        'time'
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
        if self.value is not None:
            return f"Prediction({visible(self.text)!r}, value={self.value:.4g})"
        ends = self.objective in ENDS
        where = f"{self.objective} of the answer" if ends else f"position={self.position}"
        return f"Prediction({visible(self.text)!r}, {where}, {best}, ...)"


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
    """Predict the next token (causal model), the token at [MASK] (masked model), or classes.

    p = softmax(logits) at one position. Of a ...ForSequenceClassification over its classes, or
    sigmoid of each label alone where it is trained for several labels at once; one trained for a
    number gives that as `value`, and no probability. Of a ...ForTokenClassification over the
    classes of one token. Of a ...ForQuestionAnswering over the tokens, once for the start of the
    answer and once (in `others`) for its end.

    Args:
        model: a causal or masked language model, a classifier, or a question answerer.
        text: for a masked model with [MASK] in it, or with `position`; the question.
        gates: factors (layer, head) on each head's z; 1 leaves a head, 0 takes it away.
        intervention: what else happens to some heads; gates scale its result.
        top_k: how many candidates, 1 or more.
        position: causal: after which token (the last one if not given). Masked: at which token;
            one that is not [MASK] is masked first; the first [MASK] if not given. Token
            classifiers: of which token; the first of the text if not given. Negative numbers
            count from the end. Other classifiers: none.
        temperature: above 0; for `displayed` alone: softmax(logits / temperature).
        text_pair: second segment, for models that take one: the context of a question.
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
    >>> prediction = predict(mv.load("tiny-gpt2"), "Once upon a", top_k=1)
    >>> prediction.candidates
    ('time',)
    """
    kind = check_predicts(model.network, classes=True)
    if kind != "masked" and pseudo_loss:
        why = "a causal one has a loss of its own" if kind == "causal" else "a class has none"
        raise ArgumentError(f"pseudo_loss is for masked models: {why}.")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise ArgumentError(f"top_k must be a whole number of 1 or more, got {top_k!r}.")
    if not (math.isfinite(temperature) and temperature > 0):
        raise ArgumentError(f"temperature must be a finite number above 0, got {temperature}.")
    pair = None if text_pair is None else replace_mask(model, text_pair)
    full_text, _ = encode_texts(model.reader, replace_mask(model, text), pair)
    encoded, positions = predicted_positions(model, kind, full_text, position)
    forward = _forward(model, gates, intervention, encoded)
    text_logits = forward([encoded])[0]
    losses: tuple[float | None, ...] = (None,) * len(encoded.tokens)
    if kind == "causal":
        losses = causal_losses(text_logits, encoded)
    elif pseudo_loss:
        losses = masked_losses(model, full_text, forward)
    masks = tuple(sorted(positions)) if kind == "masked" else ()
    first, *later = [
        replace(
            _prediction(model, kind, encoded, predicted_at, text_logits, top_k, temperature),
            masks=masks,
            losses=losses,
        )
        for predicted_at in positions
    ]
    return replace(first, other_predictions=tuple(later))


def spaced_at(kind: str, of: Prediction | Encoded, position: int) -> bool:
    """Return whether a word at the predicted place has a space before it (see `id_of`)."""
    at = of.tokens[position]
    text = (of.text_pair if at.segment else of.text) or ""
    if kind == "masked":
        return at.start is not None and text[: at.start][-1:].isspace()
    return at.end is not None and not text[: at.end][-1:].isspace()


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the numbers that are not None; None where there is none."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


def predicted_positions(
    model: AttentionModel, kind: Objective, encoded: Encoded, position: int | None
) -> tuple[Encoded, list[int]]:
    """Return the tokens to run, and the positions: the chosen one first, then every other mask.

    Of an answer they are its ends, 0 and 1. Raises TextError: a masked model and no [MASK].
    ArgumentError: no such position, or a special token.
    """
    n = len(encoded.tokens)
    if kind in (*OF_TEXTS, "answer"):
        if position is not None:
            outcome = "A class" if kind in OF_TEXTS else "An answer"
            raise ArgumentError(f"{outcome} is predicted for the whole text: leave out position.")
        return encoded, [0, 1] if kind == "answer" else [outcomes.class_position(model, encoded)]
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
        if kind == "masked":
            encoded = mask_token_at(model, encoded, position)
    if kind == "token_class":
        text_positions = outcomes.own_tokens(encoded.tokens)
        first = text_positions[0] if position is None else position
        return encoded, [first, *(i for i in text_positions if i != first)]
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
    text_logits: Float[Tensor, "predicted outcome"],
    top_k: int,
    temperature: Number,
) -> Prediction:
    """Make the prediction at one position; its masks and losses are of the whole text."""
    text_logits = text_logits.float().cpu()
    log_probs = log_probs_at(kind, text_logits, position)
    if text_logits.isnan().any() or log_probs.isnan().any():
        raise ArgumentError(
            "The model's numbers overflow with its heads changed so: take smaller factors."
        )
    offered, notes = log_probs, model.notes + text_notes(model.name, encoded)
    if kind == "answer":
        offered = outcomes.within(log_probs, outcomes.context_tokens(encoded.tokens))
        best = int(log_probs.argmax())
        if offered[best].isneginf():
            notes += (NO_ANSWER.format(ENDS[position], encoded.tokens[best].text),)
    n_offered = int((~offered.isneginf()).sum())
    ids = offered.topk(min(top_k, n_offered)).indices
    numbers = tuple(ids.tolist())
    return Prediction(
        objective=ENDS[position] if kind == "answer" else kind,
        position=0 if kind == "answer" else position,
        tokens=encoded.tokens,
        candidates=outcomes.labels_of(model, numbers, encoded.tokens),
        ids=numbers,
        probabilities=tuple(log_probs[ids].exp().tolist()),
        continues=outcomes.continuing(model, numbers, encoded.tokens),
        entropy=entropy(kind, log_probs),
        losses=(),
        log_probs=log_probs,
        display_temperature=float(temperature),
        displayed=tuple(
            log_probs_at(kind, text_logits / temperature, position)[ids].exp().tolist()
        ),
        model=model.name,
        text=encoded.text,
        text_pair=encoded.text_pair,
        notes=notes,
        value=float(text_logits) if kind == "regression" else None,
    )
