"""Lab 4: one real head step by step: project, compute, concatenate, project."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

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
        activations: the input and the output of the model's layer.
        weights: the layer's, float32, key heads repeated for the query heads that share them.
        query, key: (token, d_head), value: (token, d_value); where the model turns or scales its
            queries and keys after the matrices (rotary positions, norms), the model's own.
        dots: Q K^T. scaled: dots times `scale`. masked: -inf where the mask forbids.
        pattern: softmax of it, or the model's own where it adds more than a mask.
        patterns: that of every head, (head, query, key).
        z: (head, query, d_value). joined: (query, head * d_value), all heads side by side.
        output: (query, d_model), joined W_O + b_O.
        causal: whether later tokens are hidden here.
        switched: whether the mask is another one than the model's own.
        n_kv_heads: how many key and value heads the query heads share.
        differences: what was compared with the model's own -> (largest difference, largest size).
        from_model: which of "query", "key", "value", "pattern" are the model's own, because the
            matrices alone do not give them.
    """

    activations: LayerActivations
    weights: AttentionWeights
    query: Tensor
    key: Tensor
    value: Tensor
    dots: Tensor
    scaled: Tensor
    masked: Tensor
    pattern: Tensor
    patterns: Tensor
    z: Tensor
    joined: Tensor
    output: Tensor
    scale: float
    causal: bool
    switched: bool
    n_kv_heads: int
    differences: dict[str, tuple[float, float]]
    from_model: tuple[str, ...]

    @property
    def has_usual_scale(self) -> bool:
        """True where scores are divided by the square root of d_k."""
        return abs(self.scale - self.query.shape[1] ** -0.5) <= 1e-6

    @property
    def W_O(self) -> Tensor:
        """(head * d_value, d_model), the heads' slices below each other."""
        joined: Tensor = self.weights.W_O.flatten(0, 1)
        return joined


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
    >>> found = step_by_step(model, record, 0, 0, record_activations(model, record, 0))
    >>> found.differences["output"][0] < 1e-4
    True
    """
    if not 0 <= head < record.n_heads:
        raise ArgumentError(f"head must lie in 0..{record.n_heads - 1}, got {head}.")
    layer_weights = model.attention_weights(layer, record.part)
    weights = spread(layer_weights)
    compared = _Comparison(1e-3 if model.dtype in (torch.float32, torch.float64) else 0.05)
    query, key, value = _projected(weights, activations, record, layer, compared)
    scale = query.shape[-1] ** -0.5 if weights.scale is None else float(weights.scale)
    masked = scores(query, key, causal=record.causal, scale=scale)
    pattern = compared.choose("pattern", softmax(masked), record.pattern[layer])
    switched = causal is not None and causal != record.causal
    if switched:
        if "pattern" in compared.from_model or record.is_cross:
            raise ArgumentError(
                "The mask can be switched only where scores are all that softmax takes, and where "
                "queries and keys are the same tokens: take the model’s own mask here."
            )
        masked = scores(query, key, causal=bool(causal), scale=scale)
        pattern = softmax(masked)
        compared.differences["pattern"] = gap(pattern, record.pattern[layer])
    mixed = z(pattern, value)
    joined = mixed.transpose(0, 1).flatten(1)
    output = joined @ weights.W_O.flatten(0, 1)
    output = output if weights.b_O is None else output + weights.b_O
    compared.differences["z"] = gap(mixed, record.require("z")[layer])
    compared.differences["output"] = gap(output, activations.output)
    return Steps(
        activations,
        weights,
        query[head],
        key[head],
        value[head],
        dots=scores(query[[head]], key[[head]], scale=1.0)[0],
        scaled=scores(query[[head]], key[[head]], scale=scale)[0],
        masked=masked[head],
        pattern=pattern[head],
        patterns=pattern,
        z=mixed,
        joined=joined,
        output=output,
        scale=scale,
        causal=record.causal != switched,
        switched=switched,
        n_kv_heads=len(layer_weights.W_K),
        differences=compared.differences,
        from_model=tuple(compared.from_model),
    )


class _Comparison:
    """Tensors beside the model's own: how far they differ, and which are the model's."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.differences: dict[str, tuple[float, float]] = {}
        self.from_model: list[str] = []

    def choose(self, name: str, computed: Tensor, theirs: Tensor) -> Tensor:
        """Return what the matrices make, or the model's own where that is something else."""
        difference, size = self.differences[name] = gap(computed, theirs)
        if difference <= self.tolerance * max(size, 1e-6):
            return computed
        self.from_model.append(name)
        return theirs


def _projected(
    weights: AttentionWeights,
    activations: LayerActivations,
    record: AttentionRecord,
    layer: int,
    compared: _Comparison,
) -> list[Tensor]:
    """Return queries, keys and values of all heads."""
    projections = (
        ("query", activations.X, weights.W_Q, weights.b_Q),
        ("key", activations.Y, weights.W_K, weights.b_K),
        ("value", activations.Y, weights.W_V, weights.b_V),
    )
    return [
        compared.choose(
            name,
            tokens @ W if b is None else tokens @ W + b[:, None],
            record.for_query_heads(name, layer),
        )
        for name, tokens, W, b in projections
    ]


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

    crossed: AttentionOutput = layer(
        *(torch.stack([vector(word) for word in words]) for words in (queries, keys))
    )
    return crossed
