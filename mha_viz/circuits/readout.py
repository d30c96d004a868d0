"""From what the stack of layers gives to logits, as one run had it: linear, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.frozen import FrozenNorm, frozen
from mha_viz.circuits.layout import stack_of, unknown_layout
from mha_viz.circuits.residual import ResidualStream
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.own_weights import rounding
from mha_viz.errors import AttentionUnavailableError
from mha_viz.prediction.logits import check_predicts
from mha_viz.text.tokens import Encoded


@dataclass(frozen=True)
class Readout:
    """How one run came from the stack's output to its logits at one position.

    GPT-2, Llama and their relatives have the unembedding alone. BERT and its relatives have a
    transform before it, dense, activation and norm. The activations that they use (gelu, relu,
    silu) are x times a gate g(x), and the gate keeps the value of this run, as the scale of a norm
    does: then the transform is linear, and what components make of it sums to what the run made.

    Args:
        stream: the run, at this position alone.
        dense: of the transform, or None.
        gate: what its activation multiplied each number with; None without one.
        norm: of the transform, or None.
        unembedding: from d_model to the vocabulary.
        raw: what the unembedding gave.
        logits: what the model gave.
        scale: logits / raw where that is one number (some families scale them), else 1.
    """

    stream: ResidualStream
    dense: Any
    gate: Float[Tensor, " d"] | None
    norm: FrozenNorm | None
    unembedding: Any
    raw: Float[Tensor, " d_vocab"]
    logits: Float[Tensor, " d_vocab"]
    scale: float

    def linear(self, rows: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d"]:
        """Parts of the stack's output as parts of what the unembedding reads; biases left out."""
        if self.dense is not None:
            rows = rows @ _in_out(self.dense)
        if self.gate is not None:
            rows = rows * self.gate
        return rows if self.norm is None else self.norm.linear(rows[:, None])[:, 0]

    @property
    def bias(self) -> Float[Tensor, " d"] | None:
        """What the transform's own biases are of what the unembedding reads; None without one."""
        if self.dense is None:
            return None
        found: Tensor = self.raw.new_zeros(1, self.dense.weight.shape[0])
        if self.dense.bias is not None:
            found = found + self.dense.bias.detach()
        if self.gate is not None:
            found = found * self.gate
        if self.norm is None:
            return found[0]
        found = self.norm.linear(found[:, None])[:, 0]
        return (found if self.norm.bias is None else found + self.norm.bias.detach())[0]

    @property
    def W_U(self) -> Float[Tensor, "d d_vocab"]:
        """The unembedding, with the scale on the logits."""
        return _in_out(self.unembedding) * self.scale

    @property
    def b_U(self) -> Float[Tensor, " d_vocab"] | None:
        """Its bias, likewise."""
        bias: Tensor | None = self.unembedding.bias
        return None if bias is None else bias.detach() * self.scale

    @property
    def bend(self) -> Float[Tensor, " d_vocab"]:
        """What a soft cap adds to each logit; 0 in families without one."""
        return self.logits - self.raw * self.scale


def readout(model: AttentionModel, encoded: Encoded, position: int) -> Readout:
    """Run a model that predicts tokens, and take it apart at one position.

    Args:
        model: a causal or masked language model.
        encoded: a text.
        position: of its tokens.

    Raises:
        AttentionUnavailableError: no head that predicts tokens, or a family that cannot be taken
            apart.
    """
    check_predicts(model.network)
    unembedding = model.network.get_output_embeddings()
    if not isinstance(unembedding, nn.Linear | Conv1D):
        raise AttentionUnavailableError(
            f"{type(model.network).__name__} does not say which of its modules is the unembedding: "
            "its logits cannot be taken apart."
        )
    inside = set(stack_of(model.network).modules())
    beyond = [
        module
        for module in model.network.modules()
        if module not in inside
        and module is not unembedding
        and (isinstance(module, nn.Linear | Conv1D) or type(module).__name__.endswith("Norm"))
    ]
    stream = ResidualStream(model, encoded, (position,), beyond=[*beyond, unembedding])
    heard = stream.run.heard
    read, raw = heard[unembedding][-1]
    made = stream.final.sum(0)
    dense = next((m for m in beyond if _reads(heard[m], made)), None)
    made = made if dense is None else heard[dense][-1][1]
    last = next((m for m in beyond if m is not dense and _gives(heard[m], read)), None)
    norm = None if last is None else frozen(last, *heard[last][-1])
    if last is not None and norm is None:
        raise unknown_layout(model, f"its {type(last).__name__} is no norm that is known here")
    gate = _gate(model, made, read if last is None else heard[last][-1][0])
    found = getattr(stream.run.output, "prediction_logits", None)
    logits = (stream.run.output.logits if found is None else found)[0, position]
    made_of = (stream, dense, gate, norm, unembedding, raw[0], logits)
    return _checked(Readout(*made_of, _scale(model, raw[0], logits)))


def _checked(made: Readout) -> Readout:
    """Raise AttentionUnavailableError unless the parts sum to what the unembedding gave."""
    with torch.no_grad():
        total = made.linear(made.stream.final[:, 0].sum(0, keepdim=True))[0]
        total = total if made.bias is None else total + made.bias
        raw = total @ _in_out(made.unembedding)
        raw = raw if made.unembedding.bias is None else raw + made.unembedding.bias
    made.stream.check_sum(raw, made.raw)
    return made


def _scale(model: AttentionModel, raw: Tensor, logits: Tensor) -> float:
    """By what one number the logits are what the unembedding gave; 1 under a soft cap."""
    if getattr(model.config, "final_logit_softcapping", None) is not None:
        return 1.0
    if torch.equal(raw, logits):
        return 1.0
    scale = float(raw @ logits / (raw @ raw))
    if not _near(raw * scale, logits):
        raise unknown_layout(model, "its logits are not what its unembedding gives")
    return scale


def _gate(model: AttentionModel, x: Tensor, y: Tensor) -> Tensor | None:
    """What the activation between x and y multiplied each number with; None where there is none."""
    if x.shape != y.shape:
        raise unknown_layout(model, "its prediction head is neither an unembedding nor BERT's")
    return None if _near(x, y) else torch.where(x != 0, y / x, torch.zeros_like(x))[0]


def _reads(calls: list[Any], given: Tensor) -> bool:
    return bool(calls) and _near(calls[-1][0], given)


def _gives(calls: list[Any], taken: Tensor) -> bool:
    return bool(calls) and _near(calls[-1][1], taken)


def _near(a: Tensor | None, b: Tensor) -> bool:
    """Whether these are the same numbers but for rounding."""
    if a is None or a.shape != b.shape:
        return False
    return float((a - b).abs().max()) <= rounding(b.dtype) * float(b.abs().max())


def _in_out(projection: Any) -> Tensor:
    weight: Tensor = projection.weight.detach()
    return weight if isinstance(projection, Conv1D) else weight.T
