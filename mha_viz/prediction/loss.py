"""The loss of texts under many settings of their heads.

A setting is a factor for every head. One forward pass takes many of them, one after the other in
the batch: all rows of text under the first, then all under the second.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.engine.attention_function import HeadEdits, Probe
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.run import OnLayer, padded
from mha_viz.errors import ArgumentError, AttentionUnavailableError, ShapeError, TextError
from mha_viz.prediction.logits import Objective, objective
from mha_viz.text.encoding import cut_notes, encode_texts
from mha_viz.text.tokens import Encoded

MASKED_SHARE = 0.15  # of a text's own tokens, hidden at once; as BERT was trained
MAX_TOKENS = 2048  # in one forward pass; more makes it no faster, and takes more memory
MAX_LOGIT_BYTES = 2**28
OnProgress = Callable[[int, int], None]
Gates = Float[Tensor, "setting layer head"]


@dataclass(frozen=True, eq=False)
class PredictionTargets:
    """Texts as rows of tokens, and in every row the tokens that the model is asked for.

    Args:
        rows: what goes in; a masked model has several rows of a text.
        text: of each row, the number of its text.
        places: of each row, the positions whose logits answer.
        answers: of each row, the right tokens, one for each place.
        n_texts: how many texts.
        notes: what was cut off.
    """

    rows: tuple[Encoded, ...]
    text: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    n_texts: int
    notes: tuple[str, ...] = ()

    @property
    def n_answers(self) -> Float[Tensor, " text"]:
        """How many tokens of each text are asked for."""
        counts = torch.zeros(self.n_texts, dtype=torch.float64)
        for text, answers in zip(self.text, self.answers, strict=True):
            counts[text] += len(answers)
        return counts

    def index(self) -> Int[Tensor, "3 target"]:
        """Of every answer its row, its place in the row, and the right token."""
        flat = [
            (row, place, answer)
            for row, both in enumerate(zip(self.places, self.answers, strict=True))
            for place, answer in zip(*both, strict=True)
        ]
        return torch.tensor(flat).T

    def part(self, chosen: Sequence[int]) -> PredictionTargets:
        """Some of the rows; the texts keep their numbers."""
        return PredictionTargets(
            rows=tuple(self.rows[i] for i in chosen),
            text=tuple(self.text[i] for i in chosen),
            places=tuple(self.places[i] for i in chosen),
            answers=tuple(self.answers[i] for i in chosen),
            n_texts=self.n_texts,
        )

    def parts(self, max_tokens: int) -> Iterator[PredictionTargets]:
        """Rows of like length together, up to so many tokens; a longer row stands alone."""
        together: list[int] = []
        for i in sorted(range(len(self.rows)), key=lambda i: len(self.rows[i].input_ids)):
            # In this order the new row is the longest, to which the others are filled up.
            if together and (len(together) + 1) * len(self.rows[i].input_ids) > max_tokens:
                yield self.part(together)
                together = []
            together.append(i)
        yield self.part(together)

    def of_texts(self, values: Float[Tensor, "setting target"]) -> Float[Tensor, "setting text"]:
        """Sums over the answers of each text; differentiable."""
        counts = torch.tensor([len(answers) for answers in self.answers])
        index = torch.tensor(self.text).repeat_interleave(counts).to(values.device)
        sums = values.new_zeros(len(values), self.n_texts)
        return sums.index_add(1, index, values)


def losses(
    model: AttentionModel,
    texts: str | Sequence[str],
    gates: Tensor | None = None,
    *,
    masked_share: float = MASKED_SHARE,
    on_progress: OnProgress | None = None,
) -> Float[Tensor, "*setting text"]:
    """How badly a model predicts the tokens of texts, with some of its heads turned down or off.

    Causal models: the mean of -ln p over every token but the first, given those before it. Masked
    models: every token of the text itself (not the special ones) is hidden once, together with
    every k-th other, and the loss is the mean of its -ln p then; k = ceil(1 / masked_share).
    Nothing is drawn at random: the same text always has the same loss.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        texts: one or several; what does not fit the model is cut off.
        gates: factors on the heads' z, (layer, head) or (setting, layer, head); 1 leaves a head as
            it is, 0 switches it off. All heads are on if not given.
        masked_share: of a text's tokens hidden at once, in (0, 1]; masked models only. The work is
            in proportion to 1 / masked_share.
        on_progress: called with how much is done, and of how much (rows of text under a setting),
            at least once a layer; an exception it raises stops the work.

    Returns:
        (text,), or (setting, text) for gates with settings: nats per token, 0 or more, float64.

    Raises:
        AttentionUnavailableError: no prediction head, an encoder-decoder, or a family that
            computes its attention by itself.
        TextError: a text that cannot be used, or in which there is nothing to predict.
        ShapeError, ArgumentError: gates or masked_share that do not fit.

    Source: masked models: the pseudo-log-likelihood of Salazar et al. 2020, who hide one token at
    a time.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> all_heads, no_head = losses(model, "The cat sat.", torch.tensor([1.0, 0]).reshape(2, 1, 1)
    ...                             .expand(2, 4, 8))
    >>> bool(all_heads < no_head)
    True
    """
    targets = prediction_targets(model, texts, masked_share)
    settings = checked_gates(model, gates)
    found = setting_losses(model, targets, settings.reshape(-1, *settings.shape[-2:]), on_progress)
    return found if settings.ndim == 3 else found[0]


def checked_gates(model: AttentionModel, gates: Tensor | None) -> Tensor:
    """Gates that fit the model; ones if there are none."""
    size = (model.n_layers, model.n_heads)
    if gates is None:
        return torch.ones(size)
    if gates.ndim not in (2, 3) or tuple(gates.shape[-2:]) != size or not len(gates):
        raise ShapeError(
            f"gates must be (layer, head) or (setting, layer, head) with {size[0]} layers of "
            f"{size[1]} heads, got {tuple(gates.shape)}."
        )
    if not bool(torch.isfinite(gates).all()):
        raise ArgumentError("gates hold NaN or infinite numbers: give a factor for every head.")
    return gates.detach().cpu()


# -- what is to be predicted ---------------------------------------------------------------------


def prediction_targets(
    model: AttentionModel, texts: str | Sequence[str], masked_share: float = MASKED_SHARE
) -> PredictionTargets:
    """The rows and right answers by which `losses` judges a model."""
    kind = _kind(model)
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        raise TextError("There is no text to take the loss of: give at least one.")
    if not 0 < masked_share <= 1:
        raise ArgumentError(f"masked_share must lie in (0, 1], got {masked_share}.")
    encoded = [encode_texts(model.reader, text)[0] for text in texts]
    found = []
    for number, text in enumerate(encoded):
        rows_of_text = _next(text) if kind == "causal" else _hidden(model, text, masked_share)
        if not rows_of_text:
            few = "one token" if kind == "causal" else "no token of its own"
            raise TextError(
                f"Text {number + 1} of {len(texts)} has {few} for {model.name}, so that there is "
                "nothing to predict in it: write at least two words."
            )
        found += [(row, number, places, answers) for row, places, answers in rows_of_text]
    rows, numbers, places, answers = zip(*found, strict=True)
    notes = cut_notes(model.name, *encoded)
    return PredictionTargets(rows, numbers, places, answers, len(texts), notes)


Row = tuple[Encoded, tuple[int, ...], tuple[int, ...]]


def _next(text: Encoded) -> list[Row]:
    ids = tuple(text.input_ids)
    return [(text, tuple(range(len(ids) - 1)), ids[1:])] if len(ids) > 1 else []


def _hidden(model: AttentionModel, text: Encoded, share: float) -> list[Row]:
    mask = model.tokenizer.mask_token_id
    if mask is None or mask >= model.d_vocab:
        raise AttentionUnavailableError(
            f"The tokenizer of {model.name} has no mask token: what the model predicts cannot be "
            "asked. Load the checkpoint with the tokenizer it was trained with."
        )
    own = [i for i, t in enumerate(text.tokens) if not t.is_special and t.id != mask]
    step = min(len(own), ceil(1 / share - 1e-9))
    rows = []
    for places in (tuple(own[first::step]) for first in range(step)):
        ids = list(text.input_ids)
        for place in places:
            ids[place] = mask
        answers = tuple(text.input_ids[place] for place in places)
        rows.append((Encoded(ids, text.token_type_ids, text.tokens), places, answers))
    return rows


def _kind(model: AttentionModel) -> Objective:
    """What the model predicts, or why it has no loss under gates."""
    kind = objective(model.network)
    if len(model.parts) > 1:
        reason = "is an encoder-decoder, whose loss takes two texts: take a BERT or a GPT"
    elif kind is None:
        reason = (
            f"is a {type(model.network).__name__} without a head that predicts tokens, so that it "
            "has no loss: load a checkpoint saved with its language-model head (…ForCausalLM, "
            "…ForMaskedLM)"
        )
    elif model.backend != "mha_viz":
        reason = (
            f"is of the {model.family} family, which computes its attention by itself: its heads "
            "cannot be switched off here. Take a BERT, GPT-2 or Llama"
        )
    else:
        assert kind is not None
        return kind
    raise AttentionUnavailableError(f"{model.name} {reason}.")


# -- many settings -------------------------------------------------------------------------------


class Progress:
    """How much is done, told again and again, so that whoever is told may stop it."""

    def __init__(self, tell: OnProgress | None, total: int) -> None:
        self.tell, self.total, self.done = tell, total, 0

    def add(self, more: int) -> None:
        self.done += more
        self.again()

    def again(self, _layer: int = 0) -> None:
        if self.tell is not None:
            self.tell(self.done, self.total)


class PreparedPass:
    """Targets that go into one forward pass, and the network that predicts them.

    Args:
        model: as for `losses`.
        targets: what the network is to predict.

    Attributes:
        row, place, answer: (target,), of every answer where it is predicted and the right token.
        n_settings: how many settings a pass should take.
    """

    def __init__(self, model: AttentionModel, targets: PredictionTargets) -> None:
        self.model, self.targets = model, targets
        self.row, self.place, self.answer = targets.index().to(model.device)
        n = max(len(row.input_ids) for row in targets.rows)
        most = MAX_TOKENS // (len(targets.rows) * n), MAX_LOGIT_BYTES // self.bytes_each(n)
        self.n_settings = max(1, min(most))

    def bytes_each(self, n: int) -> int:
        """Of the logits under one setting, of rows of n tokens."""
        return 4 * len(self.targets.rows) * n * self.model.d_vocab

    def first_layers(self, gates: Gates, on_layer: OnLayer) -> Int[Tensor, " setting"]:
        """For each setting the first layer that has to be run."""
        return torch.zeros(len(gates), dtype=torch.long)

    def log_p(
        self, gates: Gates, start: int = 0, on_layer: OnLayer | None = None
    ) -> Float[Tensor, "setting target"]:
        """ln p of every answer under each setting; gradients flow to the gates."""
        batch = gates.to(self.model.device).repeat_interleave(len(self.targets.rows), 0)
        logits = self.logits(
            self.model.network, len(gates), Probe((), on_layer, edits=HeadEdits(batch))
        )
        return self.right(logits.unflatten(0, (len(gates), -1))[:, self.row, self.place])

    def logits(
        self, network: Any, n_settings: int, probe: Probe
    ) -> Float[Tensor, "batch place d_vocab"]:
        pad = self.model.tokenizer.pad_token_id or 0
        inputs = padded(network, self.targets.rows * n_settings, pad)
        if "use_cache" in inspect.signature(network.forward).parameters:
            inputs["use_cache"] = False
        logits: Tensor = network(**inputs, mha_probe=probe).logits
        return logits

    def right(
        self, logits: Float[Tensor, "setting target d_vocab"]
    ) -> Float[Tensor, "setting target"]:
        """ln p of the right tokens."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        right = logits.gather(-1, self.answer.expand(len(logits), -1)[..., None])[..., 0]
        return right - logits.logsumexp(-1)


@torch.inference_mode()
def setting_losses(
    model: AttentionModel,
    targets: PredictionTargets,
    gates: Gates,
    on_progress: OnProgress | None = None,
    prepare: type[PreparedPass] = PreparedPass,
) -> Float[Tensor, "setting text"]:
    """`losses` of targets at hand; equal settings are run once."""
    gates, which = torch.unique(gates, dim=0, return_inverse=True)
    total = torch.zeros(len(gates), targets.n_texts, dtype=torch.float64)
    progress = Progress(on_progress, len(gates) * len(targets.rows))
    progress.again()
    for part in targets.parts(MAX_TOKENS // min(len(gates), 8)):
        prepared = prepare(model, part)
        first = prepared.first_layers(gates, progress.again)
        for layer in first.unique().tolist():
            for chosen in torch.where(first == layer)[0].split(prepared.n_settings):
                found = prepared.log_p(gates[chosen], layer, progress.again)
                total[chosen] -= part.of_texts(found.double()).cpu()
                progress.add(len(chosen) * len(part.rows))
    return (total / targets.n_answers)[which]
