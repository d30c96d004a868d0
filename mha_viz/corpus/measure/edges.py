"""Edges of attention: for every query its strongest key, and every key of much weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from mha_viz.core.copies import to_device, to_processor
from mha_viz.corpus.measure.padded import PaddedTexts
from mha_viz.text.tokens import Encoded

_MAX_DEFICIT = 1e-3  # a row's sum may miss 1 by so much
MAX_PENDING_BYTES = 2**28  # of the heaviest keys of some batches that are left on their device


@dataclass(frozen=True, eq=False)
class LayerEdges:
    """The edges of one layer of a batch, an entry for each."""

    layer: int  # its number
    row: Tensor  # the text's place in the batch
    head: Tensor  # where the weight stands
    query: Tensor
    key: Tensor
    weight: Tensor  # float32
    strongest: Tensor  # whether the query gives no key more


def layer_edges(
    layer: int, pattern: Tensor, texts: PaddedTexts, min_weight: float
) -> LayerEdges | HeaviestKeys:
    """Find for every query but special tokens the strongest key, and all keys of some weight.

    A query that sees nothing has no edge; of equal weights one is the strongest. A graphics card is
    not waited for: what it holds is handed on as it is, to be looked at when the run is done.
    """
    queries = texts.once("queries", lambda: (texts.real & ~texts.is_special)[:, None])
    if pattern.device.type != "cpu":
        n = pattern.shape[-1]
        most = n if min_weight == 0 else min(n, int((1 + _MAX_DEFICIT) / min_weight))
        return HeaviestKeys(layer, queries, *pattern.topk(most), min_weight)
    weight, key = pattern.max(-1)
    queries = queries & (weight > 0)
    best = queries.nonzero(as_tuple=True)
    # a second key of so much weight leaves less than the rest to the strongest
    open_rows = queries & (weight >= min_weight) & (weight <= 1 - min_weight + _MAX_DEFICIT)
    open_at = open_rows.nonzero(as_tuple=True)
    other_weights = pattern[open_at].scatter(1, key[open_at][:, None], 0.0)
    at, further = ((other_weights >= min_weight) & (other_weights > 0)).nonzero(as_tuple=True)
    both = (
        (*best, key[best], weight[best]),
        (*(p[at] for p in open_at), further, other_weights[at, further]),
    )
    row, head, query, to, of = (torch.cat(parts) for parts in zip(*both, strict=True))
    return LayerEdges(layer, row, head, query, to, of, torch.arange(len(row)) < len(best[0]))


@dataclass(frozen=True, eq=False)
class HeaviestKeys:
    """The heaviest keys of every query of a layer, on its device: no fewer than can be edges."""

    layer: int  # its number
    queries: Tensor  # bool (batch, 1, query), what is no padding and no special token
    weight: Tensor  # (batch, head, query, rank), the strongest first
    key: Tensor
    min_weight: float  # as of `layer_edges`

    @property
    def n_bytes(self) -> int:
        """The memory that they take; layers share `queries`."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (self.weight, self.key))

    def edges(self) -> LayerEdges:
        """Find the edges among them, which waits for their device; CUDA finds them itself."""
        tensors = self.queries, self.weight, self.key
        queries, weight, key = tensors if self.key.is_cuda else (tensor.cpu() for tensor in tensors)
        heavy = weight >= self.min_weight
        heavy[..., 0] = True
        at = (queries[..., None] & (weight > 0) & heavy).nonzero(as_tuple=True)
        row, head, query, rank = at
        return LayerEdges(self.layer, row, head, query, key[at], weight[at], rank == 0)


class Edges:
    """The edges of a shard, and the labels of their tokens."""

    def __init__(self) -> None:
        self._labels: dict[str, int] = {}
        self._parts: list[dict[str, Tensor]] = []
        # the batches whose edges are not found yet: numbers of texts, labels, layers
        self._pending: list[tuple[Tensor, Tensor, Sequence[LayerEdges | HeaviestKeys]]] = []
        self._pending_bytes = 0  # bytes of these batches

    def add(
        self,
        numbers: Sequence[int],
        encoded: Sequence[Encoded],
        layers: Sequence[LayerEdges | HeaviestKeys],
    ) -> None:
        """Add a batch: its texts by number, and each layer, which may not be waited for yet."""
        longest = max(len(text.tokens) for text in encoded)
        codes = np.zeros((len(encoded), longest), np.int32)
        for row, text in enumerate(encoded):
            of_text = [self._labels.setdefault(t.text, len(self._labels)) for t in text.tokens]
            codes[row, : len(of_text)] = of_text
        self._pending.append((torch.tensor(numbers), torch.from_numpy(codes), layers))
        on_device = [layer for layer in layers if isinstance(layer, HeaviestKeys)]
        self._pending_bytes += sum(layer.n_bytes for layer in on_device)
        if self._pending_bytes > MAX_PENDING_BYTES:
            self._find()

    def _find(self) -> None:
        """Find the edges of the batches that wait; what many of them take is fetched."""
        much = self._pending_bytes > MAX_PENDING_BYTES
        for numbers, codes, layers in self._pending:
            for layer in layers:
                edges = layer.edges() if isinstance(layer, HeaviestKeys) else layer
                number, code = (to_device(at, edges.row.device) for at in (numbers, codes))
                part = {
                    "text_id": number[edges.row],
                    "layer": torch.full_like(edges.row, edges.layer, dtype=torch.int16),
                    "head": edges.head.short(),
                    "query": edges.query.int(),
                    "key": edges.key.int(),
                    "query_token": code[edges.row, edges.query],
                    "key_token": code[edges.row, edges.key],
                    "weight": edges.weight,
                    "strongest": edges.strongest,
                }
                self._parts.append({n: v.cpu() for n, v in part.items()} if much else part)
        self._pending, self._pending_bytes = [], 0

    def table(self) -> pa.Table:
        """Make a table of all edges by query_token, layer, head, text_id and query."""
        self._find()
        labels = sorted(self._labels)
        rank = torch.zeros(len(labels), dtype=torch.int32)
        rank[[self._labels[label] for label in labels]] = torch.arange(len(labels)).int()
        is_mixed = len({part["key"].device for part in self._parts}) > 1  # some were fetched before
        columns = {
            name: torch.cat([part[name].cpu() if is_mixed else part[name] for part in self._parts])
            for name in self._parts[0]
        }
        self._parts.clear()
        for name in ("query_token", "key_token"):
            columns[name] = rank.to(columns[name].device)[columns[name]]
        order = _order(columns)
        names = pa.array(labels, pa.string())
        arrays = {}
        for name, values in columns.items():
            arrays[name] = pa.array(to_processor(values[order]).numpy())
            if name.endswith("_token"):
                arrays[name] = pa.DictionaryArray.from_arrays(arrays[name], names)
        return pa.table(arrays)


def _order(columns: dict[str, Tensor]) -> Tensor:
    """Sort rows; of one query the strongest key comes first, the others by position."""
    keys = [columns[n] for n in ("query_token", "layer", "head", "text_id", "query")]
    keys += [~columns["strongest"], columns["key"]]
    if not len(keys[0]):
        return keys[0].long()
    digits = torch.stack([key.long() for key in keys])
    low = digits.amin(1, keepdim=True)
    sizes = (digits.amax(1, keepdim=True) - low + 1)[:, 0].tolist()
    if math.prod(sizes) >= 2**63:
        order = np.lexsort([digit.cpu().numpy() for digit in digits.flip(0)])
        return torch.from_numpy(order).to(digits.device)
    code = torch.zeros_like(digits[0])
    for digit, size in zip(digits - low, sizes, strict=True):
        code = code * size + digit  # the digits of one number: sorted once, not seven times
    return code.argsort(stable=True)
