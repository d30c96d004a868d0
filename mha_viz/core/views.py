"""Other views of a record: sub-words merged to words, and some tokens left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mha_viz.core.token import merge
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from mha_viz.core.record import AttentionRecord

_NOTHING = 1e-6  # a row's mass below this is a softmax's rounding; scaled up, it would show noise


def merged(record: AttentionRecord) -> AttentionRecord:
    """See `AttentionRecord.merge_words`.

    Args:
        record: of tokens that are not merged yet.
    """
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


def without(
    record: AttentionRecord, no_query: list[bool], no_key: list[bool], renormalize: bool
) -> AttentionRecord:
    """Some tokens left out; see `AttentionRecord.without_special`.

    Args:
        record: any record.
        no_query: for each query, whether it goes.
        no_key: for each key, whether it goes.
        renormalize: scale what is left of each row back to a sum of 1.

    Raises:
        ArgumentError: no query or no key would be left.
    """
    if not any(no_query) and not any(no_key):
        return record
    rows = [i for i, out in enumerate(no_query) if not out]
    columns = [i for i, out in enumerate(no_key) if not out]
    if not rows or not columns:
        raise ArgumentError("Nothing would be left: every token of this record is removed.")
    pattern = record.pattern.new_empty(*record.pattern.shape[:2], len(rows), len(columns))
    gone = record.pattern.new_empty(pattern.shape[:3])
    for i, layer in enumerate(record.pattern):
        pattern[i], gone[i] = _what_is_left(layer, rows, columns, renormalize)
    if record.removed is not None:  # this removal acts on what the one before left
        gone = 1 - (1 - record.removed[:, :, rows]) * (1 - gone)
    return replace(
        record,
        pattern=pattern,
        tokens=tuple(record.tokens[i] for i in rows),
        key_tokens=tuple(record.key_tokens[i] for i in columns),
        z=_at(record.z, rows),
        query=_at(record.query, rows),
        key=_at(record.key, columns),
        value=_at(record.value, columns),
        removed=gone,
        sink=_at(record.sink, rows),
        allowed=_still_allowed(record, no_query, no_key),
    )


def between(record: AttentionRecord, query_segment: int, key_segment: int) -> AttentionRecord:
    """What one text of a pair looks at in the other: the same weights, of these tokens alone.

    Args:
        record: any record.
        query_segment: 0 for the text, 1 for the second text of a pair: whose tokens look.
        key_segment: the same of those looked at.

    Raises:
        ArgumentError: no query or no key would be left.
    """
    no_query = [token.segment != query_segment for token in record.tokens]
    no_key = [token.segment != key_segment for token in record.key_tokens]
    return without(record, no_query, no_key, renormalize=False)


def _averaged(shares: Tensor | None, average: Tensor) -> Tensor | None:
    return None if shares is None else torch.einsum("wq,lhq->lhw", average, shares)


def _at(kept: Tensor | None, places: list[int]) -> Tensor | None:
    return None if kept is None else kept[:, :, places]


def _still_allowed(
    record: AttentionRecord, no_query: list[bool], no_key: list[bool]
) -> Tensor | None:
    """What each layer lets a query see, without what goes; of a word go all its tokens."""
    if record.allowed is None:
        return None
    rows, columns = (
        [not out for token, out in zip(axis, gone, strict=True) for _ in range(token.parts)]
        for axis, gone in ((record.tokens, no_query), (record.key_tokens, no_key))
    )
    return record.allowed[:, rows][:, :, columns]


def _what_is_left(
    layer: Tensor, rows: list[int], columns: list[int], renormalize: bool
) -> tuple[Tensor, Tensor]:
    """These rows and columns of a layer's weights, and the share of each row that was removed."""
    before = layer[:, rows]
    left = before[..., columns]
    mass, rest = before.sum(-1), left.sum(-1)
    gone = 1 - rest / mass.clamp_min(_NOTHING)
    if renormalize:
        scaled = left / rest.clamp_min(_NOTHING)[..., None]
        left = torch.where(rest[..., None] > _NOTHING, scaled, 0.0)
    return left, torch.where(mass > _NOTHING, gone, 0.0).clamp(0.0, 1.0)
