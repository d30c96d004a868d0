"""Targets of predictions: rows of tokens, and the right answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError, TextError
from mha_viz.prediction.logits import Objective, objective, why_no_prediction
from mha_viz.prediction.outcomes import Label, right_outcomes, unit_of
from mha_viz.text.encoding import encode_texts, text_notes
from mha_viz.text.tokens import Encoded

MASKED_SHARE = 0.15  # of a text's own tokens, hidden at once; as BERT was trained
ONE_TEXT = "One text: no interval. Give several to see how far the numbers depend on the text."
# What a regression is measured by: it has no loss without a number that is known to be right.
NUMBER = "This model predicts a number. That stands in place of a loss: importance is its change."
Labels = Label | Sequence[Label]
Row = tuple[Encoded, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class PredictionTargets:
    """Texts as rows of tokens, and the tokens to predict in every row."""

    rows: tuple[Encoded, ...]  # what goes in; a masked model has several rows of a text
    text: tuple[int, ...]  # of each row, the number of its text
    positions: tuple[tuple[int, ...], ...]  # of each row, the positions whose logits answer
    answers: tuple[tuple[int, ...], ...]  # of each row, the right tokens, one for each place
    n_texts: int  # how many different texts
    notes: tuple[str, ...] = ()  # what was cut or left out, and that one text has no interval
    unit: str = "nats per token"  # of a text's loss

    @property
    def n_answers(self) -> Float[Tensor, " text"]:
        """The number of tokens that are predicted in each text."""
        counts = torch.zeros(self.n_texts, dtype=torch.float64)
        for text, answers in zip(self.text, self.answers, strict=True):
            counts[text] += len(answers)
        return counts

    def index(self) -> Int[Tensor, "3 target"]:
        """Return of every answer its row, its place in the row, and the right token."""
        flat = [
            (row, position, answer)
            for row, both in enumerate(zip(self.positions, self.answers, strict=True))
            for position, answer in zip(*both, strict=True)
        ]
        return torch.tensor(flat).T

    def part(self, chosen: Sequence[int]) -> "PredictionTargets":
        """Return some of the rows; the texts keep their numbers."""
        return PredictionTargets(
            rows=tuple(self.rows[i] for i in chosen),
            text=tuple(self.text[i] for i in chosen),
            positions=tuple(self.positions[i] for i in chosen),
            answers=tuple(self.answers[i] for i in chosen),
            n_texts=self.n_texts,
            unit=self.unit,
        )

    def parts(self, max_tokens: int) -> "Iterator[PredictionTargets]":
        """Yield rows of like length together, up to so many tokens; a longer row alone."""
        together: list[int] = []
        for i in sorted(range(len(self.rows)), key=lambda i: len(self.rows[i].input_ids)):
            # In this order the new row is the longest, to which the others are filled up.
            if together and (len(together) + 1) * len(self.rows[i].input_ids) > max_tokens:
                yield self.part(together)
                together = []
            together.append(i)
        yield self.part(together)

    def of_texts(self, values: Float[Tensor, "setting target"]) -> Float[Tensor, "setting text"]:
        """Sum values over the answers of each text; differentiable."""
        counts = torch.tensor([len(answers) for answers in self.answers])
        index = torch.tensor(self.text).repeat_interleave(counts).to(values.device)
        sums = values.new_zeros(len(values), self.n_texts)
        return sums.index_add(1, index, values)


def prediction_targets(
    model: AttentionModel,
    texts: str | Sequence[str],
    masked_share: float = MASKED_SHARE,
    labels: Labels = None,
    text_pair: str | Sequence[str] | None = None,
) -> PredictionTargets:
    """Make the rows and right answers by which `losses` judges a model.

    Causal models: every token but the first is predicted. Masked models: every token of the text
    itself (not the special ones) is hidden once, together with every k-th other one;
    k = ceil(1 / masked_share). Nothing is drawn at random. Classifiers: the class of each text, or
    of each of its tokens; each label alone where there may be many. Question answerers: start and
    end. Of a regression the number itself takes the place of the loss.

    Args:
        model: a causal or masked model, a classifier or a question answerer, of one stack, through
            our attention function.
        texts: one or several; what does not fit the model is cut off, and a note says so. Texts of
            the same tokens count once: a copy makes nothing more certain.
        masked_share: of a text's tokens hidden at once, in (0, 1]; masked models only. The work is
            in proportion to 1 / masked_share.
        labels: classifiers and question answerers only: what is right, of all texts or of each
            (see `right_outcomes`); None takes what the model itself finds likeliest.
        text_pair: the second segment of all texts, or of each: the context of a question.

    Raises:
        AttentionUnavailableError: no prediction head, an encoder-decoder, or a family that
            computes its attention by itself.
        TextError: no text, one that cannot be used, or one with nothing to predict in it.
        ArgumentError: a masked_share out of range; no such label, or not one for each text.

    Source: masked models: the pseudo-log-likelihood of Salazar et al. 2020, who hide one token at
    a time.
    """
    kind = _kind(model)
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        raise TextError("There is no text to take the loss of: give at least one.")
    if not 0 < masked_share <= 1:
        raise ArgumentError(f"masked_share must lie in (0, 1], got {masked_share}.")
    encoded: dict[tuple[int, ...], Encoded] = {}
    right = _one_for_each("labels", labels, len(texts))
    if labels is not None and kind in ("causal", "masked"):
        raise ArgumentError(f"{model.name} predicts tokens, not classes: leave out labels.")
    pairs = _one_for_each("text_pair", text_pair, len(texts))
    targets = []
    for number, (text_given, pair, label) in enumerate(zip(texts, pairs, right, strict=True), 1):
        text = encode_texts(model.reader, text_given, pair)[0]
        if encoded.setdefault(tuple(text.input_ids), text) is not text:
            continue
        if kind not in ("causal", "masked"):
            rows_of_text = [(text, *right_outcomes(model, text, label))]
        elif kind == "masked":
            rows_of_text = _hidden(model, text, masked_share)
        else:
            n, next_ids = len(text.input_ids), tuple(text.input_ids[1:])
            rows_of_text = [(text, tuple(range(n - 1)), next_ids)] if n > 1 else []
        if not rows_of_text:
            few = "one token" if kind == "causal" else "no token of its own"
            raise TextError(
                f"Text {number} of {len(texts)} has {few} for {model.name}, so that there is "
                "nothing to predict in it: write at least two words."
            )
        targets += [
            (row, len(encoded) - 1, positions, answers) for row, positions, answers in rows_of_text
        ]
    rows, numbers, positions, answers = zip(*targets, strict=True)
    notes = text_notes(model.name, *encoded.values()) + (ONE_TEXT,) * (len(encoded) == 1)
    notes += (NUMBER,) * (kind == "regression")
    if n := len(texts) - len(encoded):
        notes += (f"Duplicate texts left out: {n}. A text that occurs again counts once.",)
    return PredictionTargets(rows, numbers, positions, answers, len(encoded), notes, unit_of(kind))


def _one_for_each(name: str, value: Any, n_texts: int) -> list[Any]:
    if value is None or isinstance(value, str | int | Mapping):
        return [value] * n_texts
    each = list(value)
    if len(each) != n_texts:
        raise ArgumentError(f"{name} must be one, or one for each of {n_texts} texts: {len(each)}.")
    return each


def _hidden(model: AttentionModel, text: Encoded, share: float) -> list[Row]:
    mask = model.tokenizer.mask_token_id
    if mask is None or mask >= model.d_vocab:
        raise AttentionUnavailableError(
            f"The tokenizer of {model.name} has no mask token: what the model predicts cannot be "
            "asked. Load the checkpoint with the tokenizer it was trained with."
        )
    candidates = [i for i, t in enumerate(text.tokens) if not t.is_special and t.id != mask]
    step = min(len(candidates), ceil(1 / share - 1e-9))
    rows = []
    for positions in (tuple(candidates[first::step]) for first in range(step)):
        ids = list(text.input_ids)
        for position in positions:
            ids[position] = mask
        answers = tuple(text.input_ids[position] for position in positions)
        rows.append((Encoded(ids, text.token_type_ids, text.tokens), positions, answers))
    return rows


def _kind(model: AttentionModel) -> Objective:
    """Return what the model predicts, or raise why it has no loss under gates."""
    kind = objective(model.network)
    if kind is None or len(model.parts) > 1:
        raise AttentionUnavailableError(why_no_prediction(model.network))
    if model.backend != "mha_viz":
        raise AttentionUnavailableError(
            f"{model.name} is of the {model.family} family, which computes its attention by "
            "itself: its heads cannot be switched off here. Take a BERT, GPT-2 or Llama."
        )
    return kind
