"""Edges of attention: for every query its strongest key, and every key of much weight."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from mha_viz.corpus.measure.padded import PaddedTexts
from mha_viz.text.tokens import Encoded

_LACKING = 1e-3  # a row's sum may miss 1 by so much


@dataclass(frozen=True, eq=False)
class LayerEdges:
    """The edges of one layer of a batch, an entry for each."""

    row: np.ndarray  # the text's place in the batch
    layer: int  # its number
    head: np.ndarray  # where the weight stands
    query: np.ndarray
    key: np.ndarray
    weight: np.ndarray  # float32
    strongest: np.ndarray  # whether the query gives no key more


def layer_edges(
    layer: int, pattern: Tensor, texts: PaddedTexts, min_weight: float
) -> LayerEdges | HeaviestKeys:
    """Find for every query but special tokens the strongest key, and all keys of some weight.

    A query that sees nothing has no edge; of equal weights one is the strongest. A graphics card is
    not waited for: what it holds is handed on as it is, to be fetched when the run is done.
    """
    queries = texts.once("queries", lambda: (texts.real & ~texts.is_special)[:, None])
    if pattern.device.type != "cpu":
        n = pattern.shape[-1]
        most = n if min_weight == 0 else min(n, int((1 + _LACKING) / min_weight))
        return HeaviestKeys(layer, queries, *pattern.topk(most), min_weight)
    weight, key = pattern.max(-1)
    queries = queries & (weight > 0)
    best = queries.nonzero(as_tuple=True)
    found = [(*best, key[best], weight[best])]
    # a second key of so much weight leaves less than the rest to the strongest
    open_rows = queries & (weight >= min_weight) & (weight <= 1 - min_weight + _LACKING)
    places = open_rows.nonzero(as_tuple=True)
    others = pattern[places].scatter(1, key[places][:, None], 0.0)
    at, further = ((others >= min_weight) & (others > 0)).nonzero(as_tuple=True)
    found.append((*(place[at] for place in places), further, others[at, further]))
    return _as_arrays(layer, found)


@dataclass(frozen=True, eq=False)
class HeaviestKeys:
    """The heaviest keys of every query of a layer, on its device: no fewer than can be edges."""

    layer: int  # its number
    queries: Tensor  # bool (batch, 1, query), what is no padding and no special token
    weight: Tensor  # (batch, head, query, rank), the strongest first
    key: Tensor
    min_weight: float  # as of `layer_edges`

    def on_device(self) -> dict[Hashable, Tensor]:
        """Return its tensors by name; layers share `queries`."""
        names = {"weight": self.weight, "key": self.key.int()}
        return {("edges", self.layer, name): one for name, one in names.items()} | {
            "queries": self.queries
        }

    def received(self, found: Mapping[Hashable, Tensor]) -> HeaviestKeys:
        """Return the keys with those tensors of `on_device` that were fetched."""
        weight, key = (found["edges", self.layer, name] for name in ("weight", "key"))
        return replace(self, queries=found["queries"], weight=weight, key=key)

    def fetched(self) -> LayerEdges:
        """Fetch the edges among them."""
        queries, weight, key = (one.cpu() for one in (self.queries, self.weight, self.key))
        least = torch.full(weight.shape[-1:], self.min_weight)
        least[0] = 0.0
        options = queries[..., None] & (weight > 0) & (weight >= least)
        ranks = options[..., 0], options[..., 1:]
        best, (*places, rank) = (found.nonzero(as_tuple=True) for found in ranks)
        at = (*places, rank + 1)
        return _as_arrays(
            self.layer,
            [(*best, key[..., 0][best], weight[..., 0][best]), (*places, key[at], weight[at])],
        )


def _as_arrays(layer: int, found: Sequence[tuple[Tensor, ...]]) -> LayerEdges:
    """Convert the strongest edges and all others, in this order, to columns."""
    columns = [torch.cat(parts).numpy() for parts in zip(*found, strict=True)]
    strongest = np.arange(len(columns[0])) < len(found[0][0])
    row, head, query, to = (column.astype(np.int32) for column in columns[:4])
    return LayerEdges(row, layer, head, query, to, columns[4], strongest)


@dataclass
class Edges:
    """The edges of a shard, and the labels of their tokens."""

    _labels: dict[str, int] = field(default_factory=dict)
    _parts: list[dict[str, np.ndarray]] = field(default_factory=list)

    def add(
        self, numbers: Sequence[int], encoded: Sequence[Encoded], layers: Sequence[LayerEdges]
    ) -> None:
        """Add a batch: its texts by number, and the edges of each layer."""
        longest = max(len(text.tokens) for text in encoded)
        codes = np.zeros((len(encoded), longest), np.int32)
        for row, text in enumerate(encoded):
            of_text = [self._labels.setdefault(t.text, len(self._labels)) for t in text.tokens]
            codes[row, : len(of_text)] = of_text
        for one in layers:
            self._parts.append(
                {
                    "text_id": np.asarray(numbers, np.int64)[one.row],
                    "layer": np.full(len(one.row), one.layer, np.int16),
                    "head": one.head.astype(np.int16),
                    "query": one.query,
                    "key": one.key,
                    "query_token": codes[one.row, one.query],
                    "key_token": codes[one.row, one.key],
                    "weight": one.weight,
                    "strongest": one.strongest,
                }
            )

    def table(self) -> pa.Table:
        """Make a table of all edges by query_token, layer, head, text_id and query."""
        labels = sorted(self._labels)
        rank = np.zeros(len(labels), np.int32)
        rank[[self._labels[label] for label in labels]] = np.arange(len(labels))
        columns = {n: np.concatenate([p[n] for p in self._parts]) for n in self._parts[0]}
        self._parts.clear()
        for name in ("query_token", "key_token"):
            columns[name] = rank[columns[name]]
        order = _order(columns)
        names = pa.array(labels, pa.string())
        arrays = {}
        for name, values in columns.items():
            arrays[name] = pa.array(values[order])
            if name.endswith("_token"):
                arrays[name] = pa.DictionaryArray.from_arrays(arrays[name], names)
        return pa.table(arrays)


def _order(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Sort rows; of one query the strongest key comes first, the others by place."""
    keys = [columns[n] for n in ("query_token", "layer", "head", "text_id", "query")]
    keys += [~columns["strongest"], columns["key"]]
    place = np.zeros(len(keys[0]), np.int64)
    room = 1
    for values in keys:  # all of them as the digits of one number: sorted once, not seven times
        low = int(values.min(initial=0))
        size = int(values.max(initial=0)) - low + 1
        room *= size
        place = place * size + (values.astype(np.int64) - low)
    if room < 2**63:
        return np.argsort(place, kind="stable")
    return np.lexsort(keys[::-1])
