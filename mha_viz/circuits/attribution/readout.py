"""The readout of one run, from the stack's output to the logits: linear, part by part."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.attribution.layout import is_norm, stack_of, unknown_layout
from mha_viz.circuits.attribution.linear_maps import LinearNorm
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.projections import in_out
from mha_viz.engine.run import rounding
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.prediction.logits import (
    OF_TEXTS,
    Objective,
    check_predicts,
    outcome_logits,
    replace_mask,
)
from mha_viz.prediction.outcomes import (
    ENDS,
    end_and_position,
    labels_of,
    number_of,
    right_outcomes,
)
from mha_viz.prediction.predict import predicted_positions, spaced_at
from mha_viz.text.cleaning import visible
from mha_viz.text.encoding import encode_texts
from mha_viz.text.tokens import Encoded

_HEADS = ("qa_outputs", "classifier", "score")  # as families name what scores each token


@dataclass(frozen=True)
class Readout:
    """The way from the stack's output to the logits at one position, as one run had it.

    GPT-2, Llama and their relatives have the unembedding alone. BERT and its relatives have a
    transform before it, dense, activation and norm. The activations that they use (gelu, relu,
    silu) are x times a gate g(x), and the gate keeps the value of this run, as the scale of a norm
    does: then the transform is linear, and what components make of it sums to what the run made.
    """

    stream: ResidualStream  # the run, at this position alone
    dense: Any  # of the transform, or None
    # what its activation multiplied each number with; None without one.
    gate: Float[Tensor, " d"] | None
    norm: LinearNorm | None  # of the transform, or None
    unembedding: Any  # from d_model to the vocabulary
    raw: Float[Tensor, " d_vocab"]  # what the unembedding gave
    logits: Float[Tensor, " d_vocab"]  # what the model gave
    scale: float  # logits / raw where that is one number (some families scale them), else 1

    def linear(self, rows: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d"]:
        """Map parts of the stack's output to parts of the unembedding's input, without biases."""
        return self._behind_dense(rows if self.dense is None else rows @ in_out(self.dense))

    def _behind_dense(self, rows: Tensor) -> Tensor:
        rows = rows if self.gate is None else rows * self.gate
        return rows if self.norm is None else self.norm.carry(rows[:, None])[:, 0]

    @property
    def bias(self) -> Float[Tensor, " d"] | None:
        """The transform's own biases as a part of the unembedding's input; None without one."""
        if self.dense is None:
            return None
        dense_bias: Tensor | None = self.dense.bias
        zeros = self.raw.new_zeros(self.dense.weight.shape[0])
        (through,) = self._behind_dense(
            (zeros if dense_bias is None else dense_bias.detach())[None]
        )
        bias = None if self.norm is None else self.norm.bias
        return through if bias is None else through + bias.detach()

    @property
    def W_U(self) -> Float[Tensor, "d d_vocab"]:
        """The unembedding, with the scale on the logits."""
        W = in_out(self.unembedding)
        return W if self.scale == 1 else W * self.scale

    @property
    def b_U(self) -> Float[Tensor, " d_vocab"] | None:
        """The unembedding's bias, with the scale on the logits."""
        bias: Tensor | None = self.unembedding.bias
        return None if bias is None else bias.detach() * self.scale

    @property
    def bend(self) -> Float[Tensor, " d_vocab"]:
        """The amount that a soft cap adds to each logit; 0 in families without one."""
        return self.logits - self.raw * self.scale


def readout(model: AttentionModel, encoded: Encoded, position: int) -> Readout:
    """Run a model that predicts tokens or classes, and decompose it at one position.

    Of a question answerer the logits are two: of this position as start and as end.
    """
    kind = check_predicts(model.network, classes=True)
    unembedding = _unembedding(model, kind)
    if not isinstance(unembedding, nn.Linear | Conv1D):
        raise AttentionUnavailableError(
            f"{type(model.network).__name__} does not say which of its modules is the unembedding: "
            "its logits cannot be taken apart."
        )
    beyond = _beyond(model, unembedding)
    stream = ResidualStream(model, encoded, (position,), beyond=[*beyond, unembedding])
    calls = stream.run.calls
    read, raw = calls[unembedding][-1] if calls[unembedding] else (None, None)
    if read is None or raw is None:
        raise unknown_layout(model, "its unembedding is not called token by token")
    output = stream.final.sum(0)
    called = [module for module in beyond if calls[module]]
    dense = next((m for m in called if _near(calls[m][-1][0], output)), None)
    output = output if dense is None else calls[dense][-1][1]
    last = next(
        (m for m in beyond if m is not dense and calls[m] and _near(calls[m][-1][1], read)), None
    )
    norm = None if last is None else LinearNorm.of_run(last, *calls[last][-1])
    if last is not None and norm is None:
        raise unknown_layout(model, f"its {type(last).__name__} is no norm that is known here")
    gate = _gate(model, output, read if last is None else calls[last][-1][0])
    made_of = (stream, dense, gate, norm, unembedding, raw[0], _logits(kind, stream.run.output))
    return _checked(Readout(*made_of, _scale(model, raw[0], made_of[-1])))


def _logits(kind: Objective, output: Any) -> Float[Tensor, " outcome"]:
    """Return the logits of a run that was read at one position."""
    if kind in OF_TEXTS:
        return output.logits[0]
    logits = outcome_logits(kind, output)[0]
    return logits[:, 0] if kind == "answer" else logits[0]


def _unembedding(model: AttentionModel, kind: Objective) -> Any:
    if kind in OF_TEXTS:
        return _scores(model)
    if kind in ("answer", "token_class"):
        heads = (getattr(model.network, name, None) for name in _HEADS)
        return next((head for head in heads if head is not None), None)
    return model.network.get_output_embeddings()


def _scores(model: AttentionModel) -> nn.Module:
    """Return a classifier's map from its last token to its classes, if that is all there is."""
    score = getattr(model.network, "score", None)
    if model.causal and isinstance(score, nn.Linear):
        return score
    raise AttentionUnavailableError(
        f"{type(model.network).__name__} has layers of its own between its stack and its classes "
        "(such as a pooler with tanh), so that a class's logit is no sum over heads. What a head "
        "does for a class is measured by mv.ablate(..., target=) and "
        "mv.head_importance(..., labels=)."
    )


def read_at(
    model: AttentionModel,
    text: str,
    position: int | None,
    *,
    classes: bool = False,
    text_pair: str | None = None,
    end: str | int | None = None,
) -> tuple[Readout, int]:
    """Decompose a run of a text where the model predicts, and return that position, too.

    With `classes` of classifiers and question answerers, too; `end` says where of an answer.
    """
    pair = None if text_pair is None else replace_mask(model, text_pair)
    unmasked, _ = encode_texts(model.stored_reader, replace_mask(model, text), pair)
    kind = check_predicts(model.network, classes=classes)
    encoded, positions = predicted_positions(model, kind, unmasked, position)
    if kind == "answer":
        _, (position,) = right_outcomes(model, encoded, "start" if end is None else end)
        positions = [position]
    return readout(model, encoded, positions[0]), positions[0]


def token_number(model: AttentionModel, run: Readout, at: int, token: str | int | None) -> int:
    """Return a token's number in the vocabulary; the model's first choice where none is given."""
    kind = check_predicts(model.network, classes=True)
    if kind == "answer":
        end, _ = end_and_position("start" if token is None else token, run.stream.encoded.tokens)
        return ENDS.index(end)
    if token is None:
        return int(run.logits.argmax())
    number = number_of(model, token, spaced_at(kind, run.stream.encoded, at))
    if number >= len(run.logits):
        raise ArgumentError(f"{model.name} gives no logit to token {number}.")
    return number


def token_pair(
    run: Readout, at: int, token: str | int | None, versus: str | int | None
) -> tuple[int, int | None]:
    """Return the numbers of a token and of the one that it is compared with, if there is one."""
    model = run.stream.model
    chosen = token_number(model, run, at, token)
    against = None if versus is None else token_number(model, run, at, versus)
    if chosen == against:
        raise ArgumentError(
            f"versus is the token itself, “{visible(labels_of(model, [chosen])[0])}”: choose "
            "another one."
        )
    return chosen, against


def _beyond(model: AttentionModel, unembedding: nn.Module) -> list[nn.Module]:
    """List the projections and norms behind the stack, without the unembedding."""
    inside = set(stack_of(model.network).modules())
    return [
        module
        for module in model.network.modules()
        if module not in inside
        and module is not unembedding
        and (isinstance(module, nn.Linear | Conv1D) or is_norm(module))
    ]


def _checked(run: Readout) -> Readout:
    """Raise AttentionUnavailableError unless the parts sum to what the unembedding gave."""
    with torch.no_grad():
        total = run.linear(run.stream.final[:, 0].sum(0, keepdim=True))[0]
        total = total if run.bias is None else total + run.bias
        raw = total @ in_out(run.unembedding)
        raw = raw if run.unembedding.bias is None else raw + run.unembedding.bias
    run.stream.check_sum(raw, run.raw)
    return run


def _scale(model: AttentionModel, raw: Tensor, logits: Tensor) -> float:
    """Find the number that the logits were multiplied by; 1 under a soft cap."""
    if getattr(model.config, "final_logit_softcapping", None) is not None:
        return 1.0
    if torch.equal(raw, logits):
        return 1.0
    scale = float(raw @ logits / (raw @ raw))
    if not _near(raw * scale, logits):
        raise unknown_layout(model, "its logits are not what its unembedding gives")
    return scale


def _gate(model: AttentionModel, x: Tensor, y: Tensor) -> Tensor | None:
    """Find the gate of the activation between x and y; None where there is no activation."""
    if x.shape != y.shape:
        raise unknown_layout(model, "its prediction head is neither an unembedding nor BERT's")
    return None if _near(x, y) else torch.where(x != 0, y / x, torch.zeros_like(x))[0]


def _near(a: Tensor | None, b: Tensor) -> bool:
    """Compare two tensors but for rounding."""
    if a is None or a.shape != b.shape:
        return False
    return float((a - b).abs().max()) <= rounding(b.dtype) * float(b.abs().max())
