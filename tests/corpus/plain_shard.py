"""A shard measured the slow way, text by text from the report's own functions: the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from mha_viz.core.measure import head_similarity, measure, text_baselines
from mha_viz.core.metrics import METRICS, Baseline
from mha_viz.core.record.record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import TextError

METRIC_NAMES = [key for key, m in METRICS.items() if m.of == "head" and key != "induction"]
MEASURES = ("hellinger", "redundancy", "cka", "correlation")
KEEP = ("pattern", "z", "value")
PUNCTUATION = set(".,;:!?'\"()-")


@dataclass
class PlainShard:
    tables: dict[str, pa.Table]
    skipped: list[tuple[str, str]]
    counts: dict[str, int]


@dataclass(frozen=True)
class PlainItem:
    number: int
    text: str
    place: str
    sentence: Any = None


@dataclass
class _Rows:
    texts: list[dict[str, Any]] = field(default_factory=list)
    untrained: list[dict[str, Any]] = field(default_factory=list)
    chance: list[dict[str, Any]] = field(default_factory=list)
    sentences: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    profile: dict[Any, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0]))
    pairs: dict[Any, list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0, 0.0, 0.0])
    )


def plain_items(texts: Iterable[str]) -> list[PlainItem]:
    return [PlainItem(i, text, f"texts:{i + 1}") for i, text in enumerate(texts)]


def measure_shard(
    model: AttentionModel,
    items: Sequence[Any],
    settings: Any = None,
    *,
    untrained: AttentionModel | None = None,
    on_batch: Callable[[int, int], None] | None = None,
) -> PlainShard:
    rows, skipped, n_tokens, n_texts = _Rows(), [], 0, 0
    for item in items:
        try:
            record = model.trace(item.text, keep=KEEP)
        except TextError as error:
            skipped.append((item.place, str(error)))
            continue
        _add(rows, item, record, untrained)
        n_texts, n_tokens = n_texts + 1, n_tokens + len(record.tokens)
        if on_batch is not None:
            on_batch(1, len(record.tokens))
    counts = {"n_texts": n_texts, "n_tokens": n_tokens, "n_padded": n_tokens}
    counts |= {"n_skipped": len(skipped), "n_truncated": 0, "n_left_out": 0}
    return PlainShard(_tables(rows, untrained is not None), skipped, counts)


def _add(rows: _Rows, item: Any, record: AttentionRecord, untrained: AttentionModel | None) -> None:
    n = len(record.tokens)
    rows.texts += _by_head(item.number, n, record, measure(record))
    if untrained is not None:
        random = untrained.trace(item.text, keep=KEEP)
        rows.untrained += _by_head(item.number, n, random, measure(random))
    known = text_baselines(record)
    for layer in range(record.n_layers):
        row: dict[str, Any] = {"text_id": item.number, "layer": layer}
        for key in METRIC_NAMES:
            for way in ("uniform", "offset"):
                value = getattr(known[key].at(layer), way) if key in known else None
                row[f"{key}_{way}"] = np.nan if value is None else value
        repeats = known.get("duplicate_token", Baseline()).at(layer)
        row["duplicate_token_rows"] = np.float64(repeats.n_rows or 0)
        rows.chance.append(row)
    tokens = record.tokens
    rows.sentences.append(
        {
            "text_id": item.number,
            "unit": item.number,
            "place": item.place,
            "text": item.text,
            "n_left_out": 0,
            "tokens": list(record.labels),
            "is_special": [token.is_special for token in tokens],
            "starts": [-1 if token.start is None else token.start for token in tokens],
            "ends": [-1 if token.end is None else token.end for token in tokens],
        }
    )
    rows.edges += _edges(item.number, record)
    _add_profile(rows, record)
    for measured in MEASURES:
        matrix = head_similarity(record, measured).double().numpy()
        for i, j in zip(*np.triu_indices(len(matrix), 1), strict=True):
            if np.isfinite(matrix[i, j]):
                total = rows.pairs[measured, int(i), int(j)]
                for at, value in enumerate((1, matrix[i, j], matrix[i, j] ** 2)):
                    total[at] += value


def _by_head(
    number: int, n: int, record: AttentionRecord, scores: dict[str, torch.Tensor]
) -> Iterator[dict[str, Any]]:
    for layer, head in np.ndindex(record.n_layers, record.n_heads):
        place = {"text_id": number, "n_tokens": n, "layer": layer, "head": head}
        values = {
            key: float(scores[key][layer, head]) if key in scores else np.nan
            for key in METRIC_NAMES
        }
        yield place | values


def _edges(
    number: int, record: AttentionRecord, min_weight: float = 0.3
) -> Iterator[dict[str, Any]]:
    for layer, head in np.ndindex(record.n_layers, record.n_heads):
        weights = record.pattern[layer, head].numpy()
        for q, row in enumerate(weights):
            if record.tokens[q].is_special:
                continue
            for k in np.flatnonzero((row >= min_weight) | (np.arange(len(row)) == row.argmax())):
                yield {
                    "text_id": number,
                    "layer": layer,
                    "head": head,
                    "query": q,
                    "key": int(k),
                    "query_token": record.labels[q],
                    "key_token": record.labels[k],
                    "weight": row[k],
                    "strongest": bool(k == row.argmax()),
                }


def _add_profile(rows: _Rows, record: AttentionRecord) -> None:
    n = len(record.tokens)
    for layer, head in np.ndindex(record.n_layers, record.n_heads):
        weights = record.pattern[layer, head].double().numpy()
        for q in range(n):
            seen: dict[tuple[str, str], float] = defaultdict(float)
            for k in range(q + 1 if record.causal else n):
                offset = k - q
                near = "<-32" if offset < -32 else ">32" if offset > 32 else str(offset)
                seen["offset", near] += weights[q, k]
                seen["position", str(k) if k < 128 else ">=128"] += weights[q, k]
                seen["kind", _kind(record, q, k)] += weights[q, k]
            for (axis, at), weight in seen.items():
                total = rows.profile[layer, head, axis, at]
                total[0] += weight
                total[1] += 1


def _kind(record: AttentionRecord, q: int, k: int) -> str:
    key = record.tokens[k]
    if k == q:
        return "itself"
    if key.id == record.tokens[q].id:
        return "same token"
    if key.is_special:
        return "special"
    if set(key.text) <= PUNCTUATION:
        return "punctuation"
    return "first" if k == 0 else "other"


SMALL = pa.int16()
TYPES = {
    "text_id": pa.int64(),
    "n_tokens": pa.int32(),
    "layer": SMALL,
    "head": SMALL,
    "query": pa.int32(),
    "key": pa.int32(),
}


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    types = {
        name: TYPES.get(name, pa.float32() if pa.types.is_floating(kind) else kind)
        for name, kind in zip(table.column_names, table.schema.types, strict=True)
    }
    return table.cast(pa.schema(types))


def _tables(rows: _Rows, untrained: bool) -> dict[str, pa.Table]:
    order = ["query_token", "layer", "head", "text_id", "query"]
    edges = sorted(rows.edges, key=lambda row: tuple(row[name] for name in order))
    tables = {
        "texts": _table(rows.texts),
        "chance": _table(rows.chance),
        "sentences": _table(rows.sentences),
        "edges": _table(edges),
        "profile": _keyed(rows.profile, ["layer", "head", "axis", "at"], ["weight", "rows"]),
        "pairs": _keyed(rows.pairs, ["measure", "i", "j"], ["n", "sum", "sum_sq"]),
    }
    return tables | ({"untrained": _table(rows.untrained)} if untrained else {})


def _keyed(sums: dict[Any, list[float]], keys: list[str], values: list[str]) -> pa.Table:
    found = pd.DataFrame([[*key, *value] for key, value in sums.items()], columns=[*keys, *values])
    kinds = {"layer": "int16", "head": "int16", "rows": "int64", "n": "int64", "i": "int32"}
    kinds["j"] = "int32"
    return pa.Table.from_pandas(
        found.astype({name: kind for name, kind in kinds.items() if name in found}),
        preserve_index=False,
    )
