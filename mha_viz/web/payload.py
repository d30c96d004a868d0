"""What the browser components draw, packed into one `bytes`: a JSON header and the numbers."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Num, UInt8
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.web.labels import clean, clean_all, flags, head_name

VERSION = 1
MAX_SIDE = 128  # more cells than this a tile of some hundred pixels cannot show
MAX_HEADER = 16 * 2**20


def encode(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Square-root code of weights in [0, 1]: rint(255 sqrt(w)), one byte a weight.

    The step is finest where attention is small: the error is at most sqrt(w)/255 + 1/260100.
    """
    codes = np.sqrt(weights)
    codes *= 255.0
    codes += 0.5
    return np.minimum(codes, 255.0, out=codes).astype(np.uint8)


def decode(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The weights in the middle of each code: (c / 255)^2."""
    return np.square(np.arange(256, dtype=np.float32) / 255)[codes]


def pool_max(weights: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The largest weight of each size x size block; blocks at the right and bottom may be smaller.

    The maximum, not the mean: a diagonal one cell wide has to stay visible.
    """
    if size == 1:
        return weights
    rows, columns = (-(-side // size) for side in weights.shape[-2:])
    out = np.empty((*weights.shape[:-2], rows, columns), dtype=weights.dtype)
    # One tile at a time stays in the processor's cache; slices with a stride instead of a
    # reshape, for numpy is slow at reducing a short last axis.
    for tile in np.ndindex(weights.shape[:-2]):
        tall = weights[tile][::size].copy()
        for offset in range(1, size):
            part = weights[tile][offset::size]
            np.maximum(tall[: len(part)], part, out=tall[: len(part)])
        flat = out[tile]
        flat[:] = tall[:, ::size]
        for offset in range(1, size):
            part = tall[:, offset::size]
            np.maximum(flat[:, : part.shape[1]], part, out=flat[:, : part.shape[1]])
    return out


def grid_payload(
    pattern: Float[NDArray | Tensor, "layer head query key"],  # type: ignore[type-arg]
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    facts: Mapping[str, Num[NDArray | Tensor, "layer head"]] | None = None,  # type: ignore[type-arg]
    max_side: int = MAX_SIDE,
    exact_url: str | None = None,
    query_special: Iterable[bool] | None = None,
    key_special: Iterable[bool] | None = None,
    query_segments: Iterable[int] | None = None,
    key_segments: Iterable[int] | None = None,
    title: str = "",
) -> bytes:
    """All heads for the head grid: a header and one byte per cell.

    Args:
        pattern: (layer, head, query, key), attention weights in [0, 1].
        query_labels, key_labels: one per row and column; any text.
        facts: quantities per head, by name, shown with the head's name.
        max_side: where a tile has more rows or columns, it is pooled (see `pool_max`) with the
            same factor on both sides; the header's `pool` says so.
        exact_url: where the page finds the same pattern as raw little-endian float32; its origin
            must be that of the page. Ranges are asked for one head at a time where it is large.
        query_special, key_special, query_segments, key_segments: one per token.
        title: what the grid shows, for screen readers ("BERT on 'The cat sat'").

    Raises:
        ShapeError: labels or facts that do not fit the pattern.
        ArgumentError: numbers that are not weights.
    """
    weights = as_weights(pattern, 4)
    layers, heads, queries, keys = weights.shape
    if max_side < 1:
        raise ArgumentError(f"max_side must be at least 1, got {max_side}.")
    pool = math.ceil(max(queries, keys) / max_side)
    pooled = pool_max(weights, pool)
    check_range(pooled)
    header = {
        "kind": "grid",
        "layers": layers,
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "rows": pooled.shape[2],
        "cols": pooled.shape[3],
        "pool": pool,
        "query_labels": clean_all(query_labels, queries, "queries"),
        "key_labels": clean_all(key_labels, keys, "keys"),
        "query_special": flags(query_special, queries, "query_special"),
        "key_special": flags(key_special, keys, "key_special"),
        "query_segments": flags(query_segments, queries, "query_segments"),
        "key_segments": flags(key_segments, keys, "key_segments"),
        "facts": {
            clean(name, 60): _fact(fact, name, layers, heads)
            for name, fact in (facts or {}).items()
        },
        "exact_url": exact_url,
        "title": clean(title, 200) if title else "",
    }
    return pack(header, encode(pooled).tobytes())


def _fact(fact: Any, name: str, layers: int, heads: int) -> list[float | None]:
    values = np.asarray(fact, dtype=np.float64)
    if values.shape != (layers, heads):
        raise ShapeError(f"Fact {name!r} must be of shape {(layers, heads)}, got {values.shape}.")
    # Eight digits are more than a screen shows; NaN is no JSON.
    return [float(f"{v:.8g}") if math.isfinite(v) else None for v in values.ravel()]


def grid_unpack(payload: bytes) -> tuple[dict[str, Any], UInt8[np.ndarray, "layer head row col"]]:
    """The header and the codes of `grid_payload`."""
    header, body = unpack(payload)
    shape = tuple(header[name] for name in ("layers", "heads", "rows", "cols"))
    return header, np.frombuffer(body, dtype=np.uint8).reshape(shape)


def lines_payload(
    pattern: Float[NDArray | Tensor, "head query key"],  # type: ignore[type-arg]
    names: Sequence[str],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    is_special: Iterable[bool] | None = None,
    key_is_special: Iterable[bool] | None = None,
    segments: Iterable[int] | None = None,
    key_segments: Iterable[int] | None = None,
    threshold: float = 0.9,
    title: str = "",
) -> bytes:
    """A few chosen heads for the token lines: a header and exact float32 weights.

    Args:
        pattern: (head, query, key), attention weights in [0, 1].
        names: what each head is called ("L3 H7").
        is_special, segments: one per query token; they hold for the keys, too, where there are
            as many keys and nothing else is given for them.
        threshold: the share of a row's mass, in (0, 1], that the lines drawn hold together: the
            smallest set of keys that reaches it.

    Raises:
        ShapeError: names, labels or flags that do not fit the pattern.
        ArgumentError: numbers that are not weights, or a threshold outside (0, 1].
    """
    weights = as_weights(pattern, 3)
    heads, queries, keys = weights.shape
    check_range(weights)
    if len(names) != heads:
        raise ShapeError(f"The pattern has {heads} heads, but {len(names)} names were given.")
    if not 0.0 < threshold <= 1.0:
        raise ArgumentError(f"threshold must lie in (0, 1], got {threshold}.")
    query_special = flags(is_special, queries, "is_special")
    query_segments = flags(segments, queries, "segments")
    same = queries == keys
    header = {
        "kind": "lines",
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "names": [clean(name, 40) for name in names],
        "query_labels": clean_all(query_labels, queries, "queries"),
        "key_labels": clean_all(key_labels, keys, "keys"),
        "query_special": query_special,
        "key_special": query_special
        if same and key_is_special is None
        else flags(key_is_special, keys, "key_is_special"),
        "query_segments": query_segments,
        "key_segments": query_segments
        if same and key_segments is None
        else flags(key_segments, keys, "key_segments"),
        "threshold": threshold,
        "title": clean(title, 200) if title else "",
    }
    return pack(header, weights.astype("<f4", copy=False).tobytes())


def lines_unpack(payload: bytes) -> tuple[dict[str, Any], Float[np.ndarray, "head query key"]]:
    """The header and the weights of `lines_payload`."""
    header, body = unpack(payload)
    shape = tuple(header[name] for name in ("heads", "queries", "keys"))
    return header, np.frombuffer(body, dtype="<f4").reshape(shape)


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """Length of the header (four bytes, little-endian), header, padding to four, body.

    `id` in the header names the content: equal content, equal id.
    """
    described = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    digest = hashlib.blake2b(body, digest_size=12)
    digest.update(described.encode())
    full = {"v": VERSION, "id": digest.hexdigest()} | dict(header)
    text = json.dumps(full, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)  # float32 bodies start where a Float32Array may
    return struct.pack("<I", len(text)) + text + body


def unpack(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and body of what `pack` made.

    Raises:
        ArgumentError: bytes that `pack` did not make.
    """
    if len(payload) < 4:
        raise ArgumentError("A payload has at least four bytes.")
    (length,) = struct.unpack_from("<I", payload)
    if length > min(MAX_HEADER, len(payload) - 4):
        raise ArgumentError("The payload is cut short, or is no payload.")
    try:
        header = json.loads(payload[4 : 4 + length])
    except ValueError as error:
        raise ArgumentError(f"The payload's header is no JSON: {error}") from error
    if not isinstance(header, dict) or header.get("v") != VERSION:
        raise ArgumentError(f"The payload's header is not of version {VERSION}.")
    return header, payload[4 + length :]


def as_weights(pattern: Any, axes: int) -> NDArray[np.float32]:
    """A float32 array of that many axes, none of them empty, without a copy where possible."""
    if isinstance(pattern, Tensor):
        pattern = pattern.detach().cpu().float().numpy()
    weights = np.asarray(pattern, dtype=np.float32)
    if weights.ndim != axes or 0 in weights.shape:
        raise ShapeError(f"Expected a pattern of {axes} axes, none empty; got {weights.shape}.")
    return weights


def check_range(weights: NDArray[np.float32]) -> None:
    """Raise unless every number is a weight; one pass, and NaN comes through in both ends."""
    low, high = float(weights.min()), float(weights.max())
    if not (low >= 0.0 and high <= 1.01):
        raise ArgumentError(f"Attention weights lie in [0, 1]; got values from {low} to {high}.")


def names_of(heads: Iterable[tuple[int, int]]) -> list[str]:
    """The names of heads, for `lines_payload`."""
    return [head_name(layer, head) for layer, head in heads]
