"""Payloads of the browser components, one `bytes` each: a JSON header and the numbers."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.attention.scoring import cell_size
from mha_viz.core.layer_numbers import is_counted
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.fields import merge
from mha_viz.core.record.visible import visible_keys, visible_tiles
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.web.labels import clean

if TYPE_CHECKING:
    import pandas as pd

    from mha_viz.core.compare.query_key_map import QueryKeyMap

VERSION = 1
MAP_FACTS = {  # of a map of queries and keys, and what the page calls them
    "plane_correlation": "correlation",
    "baseline": "keys exchanged",
    "nearer_has_more": "nearer key weighs more",
}
MAX_SIDE = 128  # cells; a tile of some hundred pixels cannot show more
MAX_HEADER = 16 * 2**20
KINDS = ("residual", "source", "MLP", "bias")  # of the parts of a flow graph


def encode(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the square-root code of weights in [0, 1]: rint(255 sqrt(w)), one byte a weight.

    The step is finest where attention is small: the error is at most sqrt(w)/255 + 1/260100.
    """
    codes = np.sqrt(weights)
    codes *= 255.0
    codes += 0.5
    return np.minimum(codes, 255.0, out=codes).astype(np.uint8)


def decode(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the weights in the middle of each code: (c / 255)^2."""
    return np.square(np.arange(256, dtype=np.float32) / 255)[codes]


def grid_payload(
    record: AttentionRecord,
    facts: Mapping[str, Num[np.ndarray | Tensor, "layer head"]] | None = None,
    *,
    title: str = "",
    exact_url: str | None = None,
) -> bytes:
    """Return all heads of a record for the head grid: a header and one byte per cell.

    A weight has a code of 1 to 255, a key that the query cannot see the code 0; the header's
    `masked` says whether there are any. Where a tile has more than `MAX_SIDE` rows or columns, it
    is pooled by maximum with the same factor on both sides; the header's `pool` says so.

    `facts` are quantities per head, by name, shown with the head's name; `title` is for screen
    readers. `exact_url` is where the page, of the same origin, finds the pattern as raw little-
    endian float32; ranges are requested for one head at a time where it is large.

    Raises:
        ShapeError: facts that do not fit the record.
    """
    layers, heads, queries, keys = record.shape
    codes = encode(record.tiles(MAX_SIDE).cpu().numpy())
    np.maximum(codes, 1, out=codes)
    masked = ~visible_tiles(record, MAX_SIDE).cpu().numpy()
    codes *= ~masked[:, None]
    header = {
        "kind": "grid",
        "layers": layers,
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "rows": codes.shape[2],
        "cols": codes.shape[3],
        "pool": cell_size(queries, keys, MAX_SIDE),
        "masked": bool(masked.any()),
        **_layer_numbers(record.layer_numbers),
        **_tokens(record),
        **_words(record),
        "facts": {
            clean(name, 60): _fact(fact, name, layers, heads)
            for name, fact in (facts or {}).items()
        },
        "exact_url": exact_url,
        "title": clean(title or f"{record.model or 'a model'} on “{record.text[:80]}”", 200),
    }
    return pack(header, codes.tobytes())


def _layer_numbers(numbers: Sequence[int]) -> dict[str, list[int]]:
    """Return the model's own numbers of layers, if they are not counted from 0."""
    return {} if is_counted(numbers) else {"layer_numbers": list(numbers)}


def _tokens(record: AttentionRecord) -> dict[str, list[Any]]:
    """Return label, flag and segment of each token of both axes."""
    axes = {"query": record.tokens, "key": record.key_tokens}
    return {
        **{f"{axis}_labels": [clean(t.text) for t in tokens] for axis, tokens in axes.items()},
        **{f"{axis}_special": [int(t.is_special) for t in tokens] for axis, tokens in axes.items()},
        **{f"{axis}_segments": [t.segment for t in tokens] for axis, tokens in axes.items()},
    }


def _words(record: AttentionRecord) -> dict[str, Any]:
    """Return each token's word and the words' labels; nothing where every word is one token."""
    if record.merged:
        return {}
    axes = {"query": record.tokens, "key": record.key_tokens}  # mostly the same
    merged = {tokens: merge(tokens, record.text, record.text_pair) for tokens in set(axes.values())}
    if all(len(tokens) == len(words) for tokens, (_, words) in merged.items()):
        return {}
    word_numbers = {axis: merged[tokens][0].tolist() for axis, tokens in axes.items()}
    labels = {
        f"{axis}_labels": [clean(word.text) for word in merged[tokens][1]]
        for axis, tokens in axes.items()
    }
    return {"words": word_numbers | labels}


def notes_payload(payload: bytes, kind: str, notes: Mapping[str, Any]) -> bytes:
    """Pack what is computed after a grid's weights: "facts" (metrics), "notes" (labels), "twins".

    Notes are what JSON can hold, a value for each head in the order of `payload`, the grid's.
    """
    return pack({"kind": kind, "id": f"{unpack(payload)[0]['id']} {kind}", **notes}, b"")


def head_payload(
    payload: bytes,
    record: AttentionRecord,
    chosen: tuple[int, int],
    part: tuple[range, range] | None = None,
) -> bytes:
    """Return the exact weights of one head of the record that made the grid's `payload`.

    `part` are rows and columns, without gaps, where not all of them are wanted. A key that the
    query cannot see has the weight -0, which no softmax gives.
    """
    name = unpack(payload)[0]["id"]
    number = chosen[0] * record.n_heads + chosen[1]
    header: dict[str, Any] = {"kind": "head", "of": name, "head": number}
    header["id"] = f"{name} head {number}"
    if part is None or part == tuple(map(range, record.shape[2:])):
        weights, is_visible = record.head(*chosen), visible_keys(record, chosen[0])
    else:
        rows, columns = (slice(axis.start, axis.stop) for axis in part)
        weights = record.region(*chosen, rows, columns)
        is_visible = visible_keys(record, chosen[0], rows)[:, columns]
        header["window"] = [part[0].start, part[1].start, *weights.shape]
        header["id"] += f" {header['window']}"
    weights = torch.where(is_visible.cpu(), weights.cpu(), -0.0)
    return pack(header, weights.numpy().astype("<f4", copy=False).tobytes())


def row_payload(payload: bytes, record: AttentionRecord, query: int) -> bytes:
    """Return the exact weights of all heads from one token of the grid's record, as raw float32."""
    name = unpack(payload)[0]["id"]
    header = {"kind": "row", "id": f"{name} row {query}", "of": name, "query": query}
    return pack(header, record.from_token(query).cpu().numpy().astype("<f4", copy=False).tobytes())


def flow_payload(
    edges: pd.DataFrame,
    labels: Sequence[str],
    special: Sequence[bool],
    *,
    slider: tuple[float, float],
    title: str = "",
    **about: int,
) -> bytes:
    """Pack all parts of a flow graph, from the chosen token downwards: a header and arrays.

    `slider` is the threshold where the browser's begins and the one where it stands, `title` for
    screen readers, `about` position and layers.
    """
    parts = edges[edges.kind.isin(KINDS)]
    source, target = (edges[end].astype(str).str for end in ("source", "target"))
    one_sum = not target.contains(" mid @", regex=False).any()
    late = source.contains(" mid @| MLP ")[parts.index]
    parts = parts.assign(
        level=2 * parts.layer.to_numpy(int) + np.where(late | one_sum, 2, 1),
        carried=parts.contribution,
    )
    threshold, start = slider
    header: dict[str, Any] = {**about, "step": 2 if one_sum else 1, "threshold": threshold}
    header |= {"start": max(start, threshold), "title": clean(title, 200)}
    return _parts_payload(parts, labels, special, header)


def signed_payload(
    edges: pd.DataFrame,
    labels: Sequence[str],
    special: Sequence[bool],
    names: Mapping[tuple[int, int], str],
    *,
    signed: Mapping[str, Any],
    title: str = "",
    **about: int,
) -> bytes:
    """Pack the edges of a graph of one prediction in the form of `flow_payload`.

    `about` are position, layers and step; `signed` what the browser writes: value, held, rest,
    unit, name, pins (names of nodes). `names` are those of folded heads.
    """
    called = {f"{layer}.{head}": clean(name, 60) for (layer, head), name in names.items()}
    more = {**about, "signed": dict(signed), "names": called, "title": clean(title, 200)}
    return _parts_payload(edges.assign(carried=edges.flow), labels, special, more)


def _parts_payload(
    parts: pd.DataFrame, labels: Sequence[str], special: Sequence[bool], header: Mapping[str, Any]
) -> bytes:
    """Pack the parts of a graph's sums.

    Levels number the residual positions of a token: 0 enters the first layer, an odd one lies
    between a layer's attention and its MLP. Arrays in the body, one after the other, a number for
    each part: what it carries and its weight (float32), level of the target, head, query and key
    (uint16), and kind (uint8), the number of one of `KINDS`.
    """
    level = parts.level.to_numpy(int)
    kind = np.array([KINDS.index(name) for name in parts.kind], dtype=int)
    # What comes into a position has to stand after what leaves it: see flow_model.js.
    order = np.lexsort((-parts.flow.to_numpy(), -level))
    columns: list[NDArray[Any]] = [
        parts.carried.to_numpy("<f4"),
        parts.weight.fillna(0.0).to_numpy("<f4"),
        level.astype("<u2"),
        *(parts[name].fillna(0).to_numpy("<u2") for name in ("head", "query", "key")),
        kind.astype("u1"),
    ]
    numbers = {
        "kind": "flow",
        "parts": len(parts),
        "labels": [clean(label) for label in labels],
        "special": [int(flag) for flag in special],
        **header,
    }
    return pack(numbers, b"".join(np.ascontiguousarray(c[order]).tobytes() for c in columns))


def map_payload(maps: QueryKeyMap) -> bytes:
    """Pack the maps of all heads: a header, places, and the keys that each query weighs most.

    Arrays in the body: x and y of queries and keys in 65,536 steps of the square around a head's
    points, y downwards, and numbers of keys (uint16); the weights of these, coded as `encode` does.
    """
    coordinates = np.asarray(maps.points, dtype=np.float64)
    layers, heads, _, tokens, _ = coordinates.shape
    low, high = coordinates.min((2, 3), keepdims=True), coordinates.max((2, 3), keepdims=True)
    side = np.maximum((high - low).max(-1, keepdims=True), 1e-30)
    coordinates = ((coordinates - (low + high) / 2) / side * (1, -1) + 0.5) * 65535
    keys, codes = np.asarray(maps.strongest), encode(np.asarray(maps.weights, dtype=np.float32))
    facts = {title: getattr(maps, name) for name, title in MAP_FACTS.items()}
    header = {
        "kind": "map",
        "layers": layers,
        "heads": heads,
        **_layer_numbers(maps.layer_numbers),
        "tokens": tokens,
        "top": keys.shape[-1],
        "rows": 1,
        "cols": 1,  # of a tile of the head grid
        "labels": [clean(token.text) for token in maps.tokens],
        "text": maps.text.tolist(),
        "facts": {name: _fact(fact, name, layers, heads) for name, fact in facts.items()},
        "title": clean(f"{maps.model} on “{maps.texts[0][:80]}”", 200),
    }
    body = np.rint(coordinates).astype("<u2").tobytes() + keys.astype("<u2").tobytes()
    return pack(header, body + codes.tobytes())


def finite(values: Num[np.ndarray | Tensor, "..."]) -> list[float | None]:
    """Return numbers as JSON can say them, in eight digits, which are more than a screen shows."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    return [float(f"{v:.8g}") if math.isfinite(v) else None for v in numbers]


def _fact(fact: Any, name: str, layers: int, heads: int) -> list[float | None]:
    if np.shape(fact) != (layers, heads):
        raise ShapeError(f"Fact {name!r} must be of shape {(layers, heads)}, got {np.shape(fact)}.")
    return finite(fact)


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """Pack the header's length (four bytes, little-endian), header, padding to four, and body.

    `id` in the header names the content: equal content, equal id.
    """
    described = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    digest = hashlib.blake2b(body, digest_size=12)
    digest.update(described.encode())
    full = {"v": VERSION, "id": digest.hexdigest()} | dict(header)
    text = json.dumps(full, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)  # so that float32 bodies start where a Float32Array may start
    return struct.pack("<I", len(text)) + text + body


def bundle(payloads: Sequence[bytes]) -> bytes:
    """Pack several payloads as one; `sizes` in the header are their bytes, each padded to four.

    >>> header, body = unpack(bundle([pack({"kind": "a"}, b"12345"), pack({"kind": "b"}, b"")]))
    >>> unpack(body[: header["sizes"][0]])[1]
    b'12345'
    """
    padded = [payload + b"\0" * (-len(payload) % 4) for payload in payloads]
    return pack({"kind": "bundle", "sizes": list(map(len, payloads))}, b"".join(padded))


def unpack(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Return header and body of what `pack` made; ArgumentError for any other bytes."""
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
