"""AttentionRecord: what one run of one text through one model left behind.

Knows tensors and tokens. Must not know transformers, plotly or streamlit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core import display, record_file
from mha_viz.core.token import Token as Token
from mha_viz.core.token import merge
from mha_viz.errors import ArgumentError, NotKeptError, RecordError

_NOTHING = 1e-6  # a row's mass below this is a softmax's rounding; scaled up, it would show noise


@dataclass(frozen=True, eq=False, repr=False)
class AttentionRecord:
    """The attention of every head of every layer on one text. Immutable and validated.

    Axis order is always layer, head, query, key. Methods return new records.

    Args:
        pattern: float32 (layer, head, query, key); the attention weights, in [0, 1]; a row sums
            to 1, to 0 (a query that may see nothing), or to less where mass was removed.
        tokens: labels of the query axis.
        key_tokens: labels of the key axis where it is not the query axis (cross attention).
        z: float32 (layer, head, query, d_head), pattern times values; None where not kept.
        query, key: float32 (layer, head, query | key, d_head) as the scores saw them (after
            rotary embedding, key heads repeated for their query heads); None where not kept.
        value: float32 (layer, head, key, d_value), what is read from each key, biases included, and
            repeated as the key heads are; None where not kept.
        scale: what each layer multiplies query . key with; empty where not known.
        W_O: each layer's output weights (head, d_head, d_model), shared with the model, not
            copied, and not saved; empty where not known.
        model, family, part, text, text_pair, causal: where the record comes from. `part` is
            "self" for a single stack, or "encoder", "decoder", "cross".
        merged: sub-words were merged to words.
        removed: float32 (layer, head, query), the share of each row's mass that `without_special`
            or `without_first` took away; None where nothing was removed.
        notes: what the user should be told (a truncated text, weights newly initialised).

    Raises:
        RecordError: shapes that do not fit each other, numbers that are not weights.
    """

    pattern: Float[Tensor, "layer head query key"]
    tokens: tuple[Token, ...]
    key_tokens: tuple[Token, ...] = ()
    z: Float[Tensor, "layer head query d_head"] | None = None
    query: Float[Tensor, "layer head query d_key"] | None = None
    key: Float[Tensor, "layer head key d_key"] | None = None
    value: Float[Tensor, "layer head key d_value"] | None = None
    scale: tuple[float, ...] = ()
    W_O: tuple[Tensor, ...] = ()
    model: str = ""
    family: str = ""
    part: str = "self"
    text: str = ""
    text_pair: str | None = None
    causal: bool = False
    merged: bool = False
    removed: Float[Tensor, "layer head query"] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.key_tokens:
            object.__setattr__(self, "key_tokens", self.tokens)
        _validate(self)

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def n_layers(self) -> int:
        return self.pattern.shape[0]

    @property
    def n_heads(self) -> int:
        return self.pattern.shape[1]

    @property
    def is_cross(self) -> bool:
        """Queries and keys are different texts."""
        return self.part == "cross"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.tokens)

    @property
    def key_labels(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.key_tokens)

    @property
    def removed_mass(self) -> Float[Tensor, "layer head"] | None:
        """The mean mass per query that was taken away, in [0, 1]; None where nothing was."""
        return None if self.removed is None else self.removed.mean(-1)

    def kept(self, name: str) -> Tensor:
        """The tensor of that name, or `NotKeptError` with what to do about it."""
        tensor: Tensor | None = getattr(self, name)
        if tensor is None:
            raise NotKeptError(
                f"This record does not hold {name}: it was traced without it, the file was saved "
                f"without it, or the {self.family or 'model'} family does not expose it. Trace "
                f'again with keep=("pattern", "{name}").'
            )
        return tensor

    @property
    def head_output(self) -> Float[Tensor, "layer head query d_model"]:
        """Each head's part of its layer's attention output: z times that head's slice of W_O.

        Summed over heads, plus b_O, it is the layer's attention output. Computed when asked.

        Raises:
            NotKeptError: z or the output weights are not at hand (a record read from a file).
        """
        z = self.kept("z")
        if not self.W_O:
            raise NotKeptError(
                "head_output needs the model's output weights W_O, which a record read from a file "
                "does not carry, or which are not known for this family: trace the text again."
            )
        return torch.stack(
            [torch.matmul(z[layer], W_O.to(z)) for layer, W_O in enumerate(self.W_O)]
        )

    def head(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        """The weights of one head; negative numbers count from the end, as in Python."""
        for name, index, size in (("layer", layer, self.n_layers), ("head", head, self.n_heads)):
            if not -size <= index < size:
                raise ArgumentError(f"{name} must lie in 0..{size - 1}, got {index}.")
        return self.pattern[layer, head]

    # -- other views of the same run -----------------------------------------------------------

    def merge_words(self) -> AttentionRecord:
        """Sub-words merged to words: mass to a split-up word is summed, mass from it averaged.

        Special tokens stay as they are. Token-level quantities (query, key, value) do not survive;
        z is averaged, which is what its pattern times values gives. Source: Clark et al. 2019,
        section 4.1.
        """
        if self.merged:
            return self
        rows, tokens = merge(self.tokens, self.text, self.text_pair)
        columns, key_tokens = merge(self.key_tokens, self.text, self.text_pair)
        average = rows / rows.sum(dim=1, keepdim=True)
        pattern = self.pattern.new_empty(*self.pattern.shape[:2], len(tokens), len(key_tokens))
        for i, layer in enumerate(self.pattern):  # all at once would be as much memory again
            pattern[i] = (average @ layer @ columns.mT).clamp_(0.0, 1.0)
        z, removed = self.z, self.removed
        return replace(
            self,
            pattern=pattern,
            z=None if z is None else torch.einsum("wq,lhqd->lhwd", average, z),
            removed=None if removed is None else torch.einsum("wq,lhq->lhw", average, removed),
            query=None,
            key=None,
            value=None,
            tokens=tokens,
            key_tokens=key_tokens,
            merged=True,
        )

    def without_special(self, renormalize: bool = True) -> AttentionRecord:
        """Special tokens left out on both axes; `removed_mass` says how much went.

        Args:
            renormalize: scale each row back to a sum of 1; a row whose whole mass lay on special
                tokens becomes a row of zeros.
        """
        return self._without(
            [token.is_special for token in self.tokens],
            [token.is_special for token in self.key_tokens],
            renormalize,
        )

    def without_first(self, renormalize: bool = True) -> AttentionRecord:
        """The first token (where many heads of causal models rest) left out on both axes."""
        return self._without(
            [i == 0 for i in range(len(self.tokens))],
            [i == 0 for i in range(len(self.key_tokens))],
            renormalize,
        )

    def _without(
        self, no_query: list[bool], no_key: list[bool], renormalize: bool
    ) -> AttentionRecord:
        if not any(no_query) and not any(no_key):
            return self
        rows = [i for i, out in enumerate(no_query) if not out]
        columns = [i for i, out in enumerate(no_key) if not out]
        if not rows or not columns:
            raise ArgumentError("Nothing would be left: every token of this record is removed.")
        pattern = self.pattern.new_empty(*self.pattern.shape[:2], len(rows), len(columns))
        gone = self.pattern.new_empty(pattern.shape[:3])
        for i, layer in enumerate(self.pattern):
            pattern[i], gone[i] = _left(layer, rows, columns, renormalize)
        if self.removed is not None:  # this removal acts on what the one before left
            gone = 1 - (1 - self.removed[:, :, rows]) * (1 - gone)
        return replace(
            self,
            pattern=pattern,
            tokens=tuple(self.tokens[i] for i in rows),
            key_tokens=tuple(self.key_tokens[i] for i in columns),
            z=None if self.z is None else self.z[:, :, rows],
            query=None if self.query is None else self.query[:, :, rows],
            key=None if self.key is None else self.key[:, :, columns],
            value=None if self.value is None else self.value[:, :, columns],
            removed=gone,
        )

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write a safetensors file with the description as JSON in its header. Never pickle.

        Folders that are missing are made. See `mha_viz.core.output_file` for what becomes of links
        and devices.

        Raises:
            WriteError: it cannot be written there; what was there before is as it was.
        """
        tensors = {
            name: tensor
            for name in record_file.TENSORS
            if (tensor := getattr(self, name)) is not None
        }
        record_file.write(path, tensors, self.describe())
        return Path(path)

    def describe(self) -> dict[str, Any]:
        """Everything but the tensors, as plain JSON values."""
        return record_file.describe(self)

    @classmethod
    def load(cls, path: str | Path) -> AttentionRecord:
        """Read a record that `save` wrote; every value is checked again.

        Raises:
            RecordError: no such file, not a record, damaged, or larger than 4 GiB.
        """
        return cls(**record_file.read(Path(path)))

    # -- Python's own questions ----------------------------------------------------------------

    def __repr__(self) -> str:
        layers, heads, queries, keys = self.pattern.shape
        text = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        names = ("z", "query", "key", "value")
        kept = [name for name in names if getattr(self, name) is not None]
        return (
            f"AttentionRecord({text!r}, model={self.model!r}, part={self.part!r}, "
            f"layers={layers}, heads={heads}, queries={queries}, keys={keys}"
            + (f", keeps {' '.join(kept)}" if kept else "")
            + (", merged" if self.merged else "")
            + ")"
        )

    def _repr_html_(self) -> str | None:
        """The grid of all heads in a notebook; None (so its repr) where nothing can draw it."""
        return None if display.html_renderer is None else display.html_renderer(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AttentionRecord):
            return NotImplemented
        return self.describe() == other.describe() and all(
            _same(getattr(self, name), getattr(other, name)) for name in record_file.TENSORS
        )

    __hash__ = None  # type: ignore[assignment]  # equality compares tensors


def _left(
    layer: Tensor, rows: list[int], columns: list[int], renormalize: bool
) -> tuple[Tensor, Tensor]:
    """These rows and columns of a layer's weights, and the share of each row that is not there."""
    before = layer[:, rows]
    left = before[..., columns]
    mass, rest = before.sum(-1), left.sum(-1)
    gone = 1 - rest / mass.clamp_min(_NOTHING)
    if renormalize:
        scaled = left / rest.clamp_min(_NOTHING)[..., None]
        left = torch.where(rest[..., None] > _NOTHING, scaled, 0.0)
    return left, torch.where(mass > _NOTHING, gone, 0.0).clamp(0.0, 1.0)


def _validate(record: AttentionRecord) -> None:
    """Raise RecordError unless shapes agree and the pattern holds attention weights."""
    pattern = record.pattern
    if pattern.ndim != 4 or pattern.dtype != torch.float32:
        raise RecordError(
            "pattern must be float32 of shape (layer, head, query, key), got "
            f"{pattern.dtype} of shape {tuple(pattern.shape)}."
        )
    layers, heads, queries, keys = pattern.shape
    if 0 in pattern.shape:
        raise RecordError(f"pattern must not be empty, got shape {tuple(pattern.shape)}.")
    if (len(record.tokens), len(record.key_tokens)) != (queries, keys):
        raise RecordError(
            f"pattern has {queries} queries and {keys} keys, but there are {len(record.tokens)} "
            f"tokens and {len(record.key_tokens)} key tokens."
        )
    positions = {"z": queries, "query": queries, "key": keys, "value": keys, "removed": queries}
    for name, length in positions.items():
        tensor: Tensor | None = getattr(record, name)
        if tensor is None:
            continue
        shape, ndim = (layers, heads, length), 3 if name == "removed" else 4
        fits = tensor.ndim == ndim and tuple(tensor.shape[:3]) == shape
        if not fits or not tensor.is_floating_point():
            raise RecordError(
                f"{name} must be floating point of {ndim} axes that begin with {shape}, got "
                f"{tensor.dtype} of shape {tuple(tensor.shape)}."
            )
    if record.removed is not None and not ((record.removed >= 0) & (record.removed <= 1)).all():
        raise RecordError("removed must hold shares of a row's mass, in [0, 1].")
    if record.W_O and len(record.W_O) != layers:
        raise RecordError(f"W_O must have {layers} layers, got {len(record.W_O)}.")
    if record.scale and len(record.scale) != layers:
        raise RecordError(f"scale must have {layers} layers, got {len(record.scale)}.")
    low, high = torch.aminmax(pattern)  # one pass; NaN comes through in both
    row_max = pattern.sum(-1).max()
    if not (low >= 0.0 and high <= 1.001 and row_max <= 1.01):  # bfloat16 rows miss 1 by 4e-3
        raise RecordError(
            "pattern must hold attention weights: numbers in [0, 1] whose rows sum to at most 1; "
            f"got values from {low:.4g} to {high:.4g} and a row sum of {row_max:.4g}. NaN "
            "or infinity here means that the model's weights or scores are broken."
        )


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(torch.equal(a.cpu(), b.cpu()))
