"""Other views of a record: words for sub-words, some tokens left out, one long table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.record.fields import RecordFields
from mha_viz.core.record.token import merge
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd

Record = TypeVar("Record", bound=RecordFields)
_NOTHING = 1e-6  # a row's mass below this is a softmax's rounding; scaled up, it would show noise


def merged(record: Record) -> Record:
    """Merge the sub-words of a record: see `AttentionRecord.merge_words`."""
    rows, tokens = merge(record.tokens, record.text, record.text_pair)
    columns, key_tokens = merge(record.key_tokens, record.text, record.text_pair)
    average = rows / rows.sum(dim=1, keepdim=True)
    pattern = record.pattern.new_empty(*record.pattern.shape[:2], len(tokens), len(key_tokens))
    for i, layer in enumerate(record.pattern):  # all at once would be as much memory again
        pattern[i] = (average @ layer @ columns.mT).clamp_(0.0, 1.0)
    z = record.z
    return replace(
        record,
        pattern=pattern,
        z=None if z is None else torch.einsum("wq,lhqd->lhwd", average, z),
        removed=_averaged(record.removed, average),
        sink=_averaged(record.sink, average),
        query=None,
        key=None,
        value=None,
        tokens=tokens,
        key_tokens=key_tokens,
        merged=True,
    )


def without(record: Record, no_query: list[bool], no_key: list[bool], renormalize: bool) -> Record:
    """Leave some tokens out; see `AttentionRecord.without_special`."""
    if not any(no_query) and not any(no_key):
        return record
    rows = [i for i, out in enumerate(no_query) if not out]
    columns = [i for i, out in enumerate(no_key) if not out]
    if not rows or not columns:
        raise ArgumentError("Nothing would be left: every token of this record is removed.")
    pattern = record.pattern.new_empty(*record.pattern.shape[:2], len(rows), len(columns))
    removed = record.pattern.new_empty(pattern.shape[:3])
    for i, layer in enumerate(record.pattern):
        pattern[i], removed[i] = _kept_cells(layer, rows, columns, renormalize)
    if record.removed is not None:  # this removal acts on what the one before left
        removed = 1 - (1 - record.removed[:, :, rows]) * (1 - removed)
    return replace(
        record,
        pattern=pattern,
        tokens=tuple(record.tokens[i] for i in rows),
        key_tokens=tuple(record.key_tokens[i] for i in columns),
        z=_at(record.z, rows),
        query=_at(record.query, rows),
        key=_at(record.key, columns),
        value=_at(record.value, columns),
        removed=removed,
        sink=_at(record.sink, rows),
        allowed=_still_allowed(record, no_query, no_key),
    )


def between(record: Record, query_segment: int, key_segment: int) -> Record:
    """Keep what one text of a pair looks at in the other: the weights of these tokens alone."""
    no_query = [token.segment != query_segment for token in record.tokens]
    no_key = [token.segment != key_segment for token in record.key_tokens]
    return without(record, no_query, no_key, renormalize=False)


def long_table(
    pattern: Float[Tensor, "layer head query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
) -> pd.DataFrame:
    """Build a table with a row for each weight: see `AttentionRecord.to_frame`."""
    import pandas as pd  # late: a record is read without it

    def labels_at(labels: Sequence[str], places: NDArray[np.integer]) -> pd.Categorical[str]:
        codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
        numbers = np.array([codes[label] for label in labels])
        return pd.Categorical.from_codes(numbers[places], pd.Index(list(codes)))

    small = np.int16 if max(pattern.shape) < 2**15 else np.int32
    axes = np.indices(tuple(pattern.shape), dtype=small)
    layer, head, query, key = (axis.ravel() for axis in axes)
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "query": query,
            "key": key,
            "query_token": labels_at(query_labels, query),
            "key_token": labels_at(key_labels, key),
            "weight": pattern.cpu().numpy().ravel(),
        }
    )


def _averaged(shares: Tensor | None, average: Tensor) -> Tensor | None:
    return None if shares is None else torch.einsum("wq,lhq->lhw", average, shares)


def _at(kept: Tensor | None, places: list[int]) -> Tensor | None:
    return None if kept is None else kept[:, :, places]


def _still_allowed(record: RecordFields, no_query: list[bool], no_key: list[bool]) -> Tensor | None:
    """Return the mask without what is left out; of a word all its tokens."""
    if record.allowed is None:
        return None
    rows, columns = (
        [not out for token, out in zip(axis, removed, strict=True) for _ in range(token.parts)]
        for axis, removed in ((record.tokens, no_query), (record.key_tokens, no_key))
    )
    return record.allowed[:, rows][:, :, columns]


def _kept_cells(
    layer: Tensor, rows: list[int], columns: list[int], renormalize: bool
) -> tuple[Tensor, Tensor]:
    """Return these rows and columns of a layer's weights, and each row's removed share."""
    before = layer[:, rows]
    left = before[..., columns]
    mass, rest = before.sum(-1), left.sum(-1)
    removed = 1 - rest / mass.clamp_min(_NOTHING)
    if renormalize:
        scaled = left / rest.clamp_min(_NOTHING)[..., None]
        left = torch.where(rest[..., None] > _NOTHING, scaled, 0.0)
    return left, torch.where(mass > _NOTHING, removed, 0.0).clamp(0.0, 1.0)
