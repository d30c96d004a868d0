"""Lab 4: one real head step by step: project, compute, concatenate, project."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.dot_product import scores, softmax, z
from mha_viz.core.attention.multi_head import AttentionOutput, AttentionWeights, MultiHeadAttention
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, ShapeError, TextError
from mha_viz.learn.activations import LayerActivations, spread

MAX_WORDS, _D_MODEL = 8, 8  # of the random decoder


@dataclass(frozen=True)
class Steps:
    """Every number from X to the attention output, for one head; where heads meet, for all.

    Args:
        matrices: by name. What the layer reads, "X" and "Y" (token, d_model); the head's "W_Q",
            "W_K", "W_V" and what they make, "X W_Q", "Y W_K", "Y W_V"; "Q", "Kᵀ" and "V", where
            the model turns or scales them after the matrices (rotary positions, norms) its own;
            "Q Kᵀ"; "scores", that times `scale`; "masked", -inf where the mask forbids; "weights",
            softmax of it, or the model's own where it adds more than a mask; "z"; "joined", all
            heads side by side; "W_O", the heads' slices below each other; "output", joined W_O +
            b_O; "theirs", the model's own output; "difference", output minus that.
        weights: the layer's, float32, key heads repeated for the query heads that share them.
        patterns: the weights of every head, (head, query, key).
        scale: what Q Kᵀ is multiplied by.
        causal: whether later tokens are hidden here.
        n_kv_heads: how many key and value heads the query heads share.
        differences: what was compared with the model's own -> (largest difference, largest size).
        from_model: which of "query", "key", "value", "pattern" are the model's own, because the
            matrices alone do not give them.
    """

    matrices: dict[str, Tensor]
    weights: AttentionWeights
    patterns: Tensor
    scale: float
    causal: bool
    n_kv_heads: int
    differences: dict[str, tuple[float, float]]
    from_model: list[str]

    @property
    def d_k(self) -> int:
        """The width of a query."""
        return self.matrices["Q"].shape[1]

    @property
    def has_usual_scale(self) -> bool:
        """True where scores are divided by the square root of d_k."""
        return abs(self.scale - self.d_k**-0.5) <= 1e-6


def step_by_step(
    model: AttentionModel,
    record: AttentionRecord,
    layer: int,
    head: int,
    activations: LayerActivations,
    causal: bool | None = None,
) -> Steps:
    """Compute one layer's attention from its input and its matrices, and compare on the way.

    The record has query, key, value and z kept; `activations` are from `record_activations`. With
    `causal` True or False later tokens are hidden or not, whatever the model does.

    Raises:
        ArgumentError: no such head; another mask where the model adds more to its scores than a
            mask, or between two texts. NotKeptError: the record lacks query, key, value or z.

    Source: Vaswani et al. 2017, section 3.2.2, with W_O cut into one slice per head.

    >>> import mha_viz as mv
    >>> from mha_viz.learn.activations import record_activations
    >>> model = mv.load("tiny-gpt2")
    >>> record = model.trace("The cat sat.", keep=("pattern", "z", "query", "key", "value"))
    >>> steps = step_by_step(model, record, 0, 0, record_activations(model, record, 0))
    >>> steps.differences["output"][0] < 1e-4
    True
    """
    if not 0 <= head < record.n_heads:
        raise ArgumentError(f"head must lie in 0..{record.n_heads - 1}, got {head}.")
    layer_weights = model.attention_weights(layer, record.part)
    weights, X, Y = spread(layer_weights), activations.X, activations.Y
    tolerance = 1e-3 if model.dtype in (torch.float32, torch.float64) else 0.05
    compared = _Comparison(record, layer, tolerance)
    projected = {
        "query": _project(X, weights.W_Q, weights.b_Q),
        "key": _project(Y, weights.W_K, weights.b_K),
        "value": _project(Y, weights.W_V, weights.b_V),
    }
    query, key, value = (compared.choose(*computed) for computed in projected.items())
    scale = query.shape[-1] ** -0.5 if weights.scale is None else float(weights.scale)
    masked, pattern = _weights(query, key, scale, causal, compared)
    mixed = z(pattern, value)
    joined, W_O = mixed.transpose(0, 1).flatten(1), weights.W_O.flatten(0, 1)
    output = joined @ W_O + (0.0 if weights.b_O is None else weights.b_O)
    compared.differences["z"] = gap(mixed, record.require("z")[layer])
    compared.differences["output"] = gap(output, activations.output)
    of_heads = {"W_Q": weights.W_Q, "W_K": weights.W_K, "W_V": weights.W_V}
    of_heads |= dict(zip(("X W_Q", "Y W_K", "Y W_V"), projected.values(), strict=True))
    of_heads |= {"Q": query, "Kᵀ": key.mT, "V": value, "masked": masked}
    of_heads |= {"weights": pattern, "z": mixed}
    matrices = {name: tensor[head] for name, tensor in of_heads.items()}
    for name, factor in (("Q Kᵀ", 1.0), ("scores", scale)):
        matrices[name] = scores(query[[head]], key[[head]], scale=factor)[0]
    matrices |= {"X": X, "Y": Y, "joined": joined, "W_O": W_O, "output": output}
    matrices |= {"theirs": activations.output, "difference": output - activations.output}
    is_causal = record.causal if causal is None else causal
    return Steps(
        *(matrices, weights, pattern, scale, is_causal, len(layer_weights.W_K)),
        *(compared.differences, compared.from_model),
    )


@dataclass
class _Comparison:
    """Tensors of a layer beside the model's own: how far they differ, and which are the model's."""

    record: AttentionRecord
    layer: int
    tolerance: float
    differences: dict[str, tuple[float, float]] = field(default_factory=dict)
    from_model: list[str] = field(default_factory=list)

    def choose(self, name: str, computed: Tensor) -> Tensor:
        """Return what the matrices make, or the model's own where that is something else."""
        if name == "pattern":
            theirs = self.record.pattern[self.layer]
        else:
            theirs = self.record.for_query_heads(name, self.layer)
        difference, size = self.differences[name] = gap(computed, theirs)
        if difference <= self.tolerance * max(size, 1e-6):
            return computed
        self.from_model.append(name)
        return theirs


def _project(tokens: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return tokens @ weight if bias is None else tokens @ weight + bias[:, None]


def _weights(
    query: Tensor, key: Tensor, scale: float, causal: bool | None, compared: _Comparison
) -> tuple[Tensor, Tensor]:
    """Return masked scores and weights of all heads, under the model's own mask or another."""
    masked = scores(query, key, causal=compared.record.causal, scale=scale)
    pattern = compared.choose("pattern", softmax(masked))
    if causal in (None, compared.record.causal):
        return masked, pattern
    if "pattern" in compared.from_model or compared.record.is_cross:
        raise ArgumentError(
            "The mask can be switched only where scores are all that softmax takes, and where "
            "queries and keys are the same tokens: take the model’s own mask here."
        )
    masked = scores(query, key, causal=bool(causal), scale=scale)
    pattern = softmax(masked)
    compared.differences["pattern"] = gap(pattern, compared.record.pattern[compared.layer])
    return masked, pattern


def gap(ours: Float[Tensor, "*ours"], theirs: Float[Tensor, "*theirs"]) -> tuple[float, float]:
    """Return the largest difference of any two numbers, and the largest size of the second ones.

    >>> gap(torch.tensor([1.0, 2.0]), torch.tensor([1.0, -4.0]))
    (6.0, 4.0)
    """
    if ours.shape != theirs.shape:
        raise ShapeError(f"{tuple(ours.shape)} cannot be compared with {tuple(theirs.shape)}.")
    return float((ours - theirs).abs().max()), float(theirs.abs().max())


# -- cross-attention -------------------------------------------------------------------------------


def cross(queries: Sequence[str], keys: Sequence[str]) -> AttentionOutput:
    """Run a small random decoder on another sentence: Q from one text, K and V from the other.

    A word has the same random vector wherever it stands: there are no positions.

    Raises:
        TextError: a sentence without a word, or with more than 8.

    Source: Vaswani et al. 2017, section 3.2.3.

    >>> cross(["le", "chat"], ["the", "cat", "sat"]).pattern.shape
    torch.Size([2, 2, 3])
    """
    for words in (queries, keys):
        if not 1 <= len(words) <= MAX_WORDS:
            raise TextError(f"A sentence here has 1 to {MAX_WORDS} words, this one {len(words)}.")
    random = torch.Generator().manual_seed(0)
    projections = (
        torch.randn(2, *shape, generator=random) * shape[0] ** -0.5
        for shape in (*((_D_MODEL, 4),) * 3, (4, _D_MODEL))  # two heads
    )
    layer = MultiHeadAttention.from_weights(AttentionWeights(*projections))
    layer.eval().requires_grad_(False)

    def vector(word: str) -> Tensor:
        """Draw what depends on the word alone; larger than usual, so that weights differ."""
        drawn = torch.Generator().manual_seed(zlib.crc32(word.encode("utf-8", "replace")))
        return 2 * torch.randn(_D_MODEL, generator=drawn)

    return layer.forward(
        *(torch.stack([vector(word) for word in words]) for words in (queries, keys))
    )
