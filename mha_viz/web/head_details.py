"""Payloads of one head beyond its weights: value-weighted shares, and how scores arise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics import value_weighted
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.errors import ArgumentError
from mha_viz.web.payload import MAX_SIDE, finite, pack, unpack

MAX_KEYS = 256  # of a longer row only the strongest keys are sent
STRONGEST_KEYS = 64

Head = tuple[int, int]


def has_values(record: AttentionRecord) -> bool:
    """Return whether a record has values and output weights."""
    return record.value is not None and bool(record.W_O)


def has_vectors(record: AttentionRecord) -> bool:
    """Return whether a record has queries, keys and their scale."""
    return record.query is not None and record.key is not None and bool(record.scale)


def value_shares(
    record: AttentionRecord, head: Head, rows: slice = slice(None)
) -> Float[Tensor, "row key"]:
    """Compute weights times the length of the values, as shares of each row.

    Rows that carry nothing are zeros. See `value_weighted` for the lengths.
    """
    layer, number = head
    value, W_O = record.for_query_heads("value", layer)[number], record.W_O[layer][number]
    weights = record.rows(layer, number, rows)
    carried = value_weighted(weights[None, None], value[None, None], [W_O[None]])[0, 0]
    total = carried.sum(-1, keepdim=True)
    return torch.where(total > 0, carried / total.clamp_min(1e-30), 0.0)


def shares_payload(
    payload: bytes, record: AttentionRecord, head: Head, part: tuple[range, range]
) -> bytes:
    """Pack the value-weighted shares of one head of the record that made the grid's `payload`.

    `part` are rows and columns, as for `head_payload`; shares are of whole rows. A key that the
    query cannot see has the share -0.
    """
    rows, columns = (slice(axis.start, axis.stop) for axis in part)
    shares = value_shares(record, head, rows)[:, columns]
    is_visible = visible_keys(record, head[0], rows)[:, columns]
    shares = torch.where(is_visible.cpu(), shares.cpu(), -0.0)
    header = _header(payload, record, head, "shares")
    if part != tuple(map(range, record.shape[2:])):
        header["window"] = [part[0].start, part[1].start, *shares.shape]
        header["id"] += f" {header['window']}"
    return pack(header, shares.numpy().astype("<f4", copy=False).tobytes())


def scores_payload(
    payload: bytes, record: AttentionRecord, head: Head, query: int = -1, key: int = -1
) -> bytes:
    """Pack queries and keys of one head, from which a browser computes its scores.

    Of a short text these are all; their weights are those of `head_payload`. Of one that the grid
    pools they are `query` alone and its keys, of more than `MAX_KEYS` the strongest ones and `key`,
    and their weights, -0 where the query cannot see the key. Arrays in the body, float32: queries
    and keys by dimension, and the weights where they are sent. In the header,
    `seen` is how many keys each query can see, and `gaps` the largest difference between its row
    and the softmax of its products.

    Raises:
        ArgumentError: the text is long, and there is no such query.
    """
    n_queries, n_keys = record.shape[2:]
    layer, number = head
    is_long = max(n_queries, n_keys) > MAX_SIDE
    if is_long and not 0 <= query < n_queries:
        raise ArgumentError(f"There is no query {query} among {n_queries}.")
    queries = [query] if is_long else list(range(n_queries))
    vectors = record.require("query")[layer, number, queries].cpu().float()
    keys = record.for_query_heads("key", layer)[number].cpu().float()
    weights = record.rows(layer, number, queries).cpu()
    is_visible = visible_keys(record, layer, slice(queries[0], queries[-1] + 1)).cpu()
    listed = _listed_keys(weights, key) if is_long else list(range(n_keys))
    scale = float(record.scale[layer])
    header = _header(payload, record, head, "scores") | {
        "queries": queries,
        "keys": listed,
        "d_head": keys.shape[-1],
        "scale": scale,
        "seen": is_visible.sum(-1).tolist(),
        "gaps": finite(_softmax_gaps(vectors, keys, weights, scale)),
    }
    if is_long:
        header["id"] += f" {query} {len(listed)} {key if len(listed) < n_keys else ''}".rstrip()
    body = [vectors, keys[listed]]
    if is_long:
        body.append(torch.where(is_visible, weights, -0.0)[:, listed])
    return pack(
        header, b"".join(np.ascontiguousarray(array.numpy(), "<f4").tobytes() for array in body)
    )


def _listed_keys(weights: Float[Tensor, "row key"], key: int) -> list[int]:
    """Return the keys that are sent with a row: all, or the strongest ones and `key`."""
    n_keys = weights.shape[-1]
    if n_keys <= MAX_KEYS:
        return list(range(n_keys))
    strongest = set(weights[0].topk(STRONGEST_KEYS).indices.tolist())
    return sorted(strongest | ({key} if 0 <= key < n_keys else set()))


def _softmax_gaps(
    queries: Float[Tensor, "row d_head"],
    keys: Float[Tensor, "key d_head"],
    weights: Float[Tensor, "row key"],
    scale: float,
) -> Float[Tensor, " row"]:
    """Return by how much the softmax of the products misses each row at most.

    A large gap says that the model adds something of its own: a position bias, a cap or a sink.
    """
    scores = (scale * (queries @ keys.T)).masked_fill(weights == 0, float("-inf"))
    return (scores.softmax(-1).nan_to_num() - weights).abs().amax(-1)


def _header(payload: bytes, record: AttentionRecord, head: Head, kind: str) -> dict[str, Any]:
    name, number = unpack(payload)[0]["id"], head[0] * record.n_heads + head[1]
    return {"kind": kind, "of": name, "head": number, "id": f"{name} {kind} {number}"}
