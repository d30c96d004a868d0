"""Records of a few heads alone, of one run or of several on the same tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mha_viz.core.attention.scoring import Rows
from mha_viz.core.layer_numbers import is_counted
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.checks import Place, check_place, place_in
from mha_viz.core.record.patterns import HeadRows, Patterns
from mha_viz.core.record.visible import visible_keys

Chosen = tuple[AttentionRecord, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class ChosenPatterns(Patterns):
    """The weights of some heads, each a layer of its own; computed where those of the run are."""

    heads: tuple[Chosen, ...]
    queries: Int[Tensor, " query"]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, queries and keys."""
        return len(self.heads), 1, len(self.queries), self.heads[0][0].shape[3]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors in memory."""
        return [tensor for record, _ in self.heads for tensor in record.patterns.tensors]

    def rows(self, layer: int, rows: Rows, heads: Sequence[int] | None = None) -> HeadRows:
        """Return some rows of some heads (None for all), over all keys."""
        record, (source, head) = self.heads[layer]
        wanted = [head] if heads is None else [head for _ in heads]
        return record.patterns.full_rows(source, self.queries[rows], wanted)

    def visible_keys(self, layer: int, rows: Rows = slice(None)) -> Bool[Tensor, "row key"]:
        """Return which keys some queries may see, as the whole layer of the run tells."""
        record, (source, _) = self.heads[layer]
        is_visible = record.patterns.visible_keys(source, self.queries[rows])
        return self._masks[layer][self.queries[rows]] if is_visible is None else is_visible

    @cached_property
    def _masks(self) -> list[Bool[Tensor, "query key"]]:
        return [visible_keys(record, source) for record, (source, _) in self.heads]


def place_of(record: AttentionRecord, head: Place) -> tuple[int, int]:
    """Return where arrays have a head: its layer by the model's number, or counted from the end.

    Raises ArgumentError: no such head.
    """
    layer, number = check_place(head)
    if not is_counted(record.layer_numbers) and layer >= 0:
        layer = record.layer_of(layer)
    return place_in(record, layer, number)


def chosen_heads(*heads: Chosen, most: int | None = None) -> AttentionRecord:
    """Return a record of these heads alone, each a layer of its own.

    `heads` are records on the same tokens, and a head of each; `most` is the largest number of
    queries, evenly spaced ones of a longer text. Returns a record (head, 1, query, key), with the z
    of these heads where all of them have one of the same width.
    """
    first = heads[0][0]
    n = first.shape[2]
    queries = torch.arange(0, n, 1 if most is None else -(-n // most))

    def stacked(name: str) -> Tensor | None:
        fields = [(getattr(record, name), layer_head) for record, layer_head in heads]
        if any(tensor is None for tensor, _ in fields):
            return None
        slices = [tensor[layer_head][queries] for tensor, layer_head in fields]
        if any(part.shape != slices[0].shape for part in slices):
            return None
        return torch.stack([part.to(slices[0]) for part in slices])[:, None]

    nothing: dict[str, Any] = dict.fromkeys(("query", "key", "value", "removed", "allowed"))
    tokens = tuple(first.tokens[i] for i in queries.tolist())
    fields: dict[str, Any] = {"patterns": ChosenPatterns(heads, queries), "tokens": tokens}
    fields |= {"z": stacked("z"), "sink": stacked("sink")}
    fields |= dict.fromkeys(("scale", "W_O", "layer_numbers"), ())
    return replace(first, **fields, **nothing)
