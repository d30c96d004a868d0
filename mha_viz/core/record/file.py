"""The file format of a record: safetensors, with a JSON description in its header. No pickle."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mha_viz.core.amounts import of_bytes
from mha_viz.core.attention.scoring import Scoring, Sight
from mha_viz.core.layer_numbers import is_counted
from mha_viz.core.output_file import write_file
from mha_viz.core.record.fields import Token
from mha_viz.core.record.patterns import ComputedPatterns, Patterns, StoredPatterns
from mha_viz.errors import RecordError

FORMAT = "mha_viz.record.1"
COMPUTED = "mha_viz.record.2"  # holds what computes the weights in place of the weights
MAX_FILE_BYTES = 4 * 10**9  # a record of 48 layers x 25 heads x 900 tokens still fits
MAX_HEADER_BYTES = 8_000_000  # lists in lists take twenty times as much once they are read
TENSORS = ("pattern", "z", "query", "key", "value", "removed", "sink", "allowed")
HASH = "sha256"  # of all else in the file; files of before have none
_LEAST_REST = 0.01  # of a row: what half precision leaves of 1
_TEXTS = ("model", "family", "part", "text")
_FLAGS = ("causal", "merged")
# What a file that is no record makes the libraries and the checks below raise.
_FAULTS = SafetensorError, OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError
_KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.bool: "BOOL",
}


def write(path: str | Path, record: Any) -> None:
    """Write a record's `tensors`, and what `describe` gives."""
    write_file(path, parts(record), parents=True)


def parts(record: Any) -> list[memoryview]:
    """Return what `write` puts into a file, one part after another.

    Straight from the tensors' own memory: safetensors' `save` would hold the whole file as well.
    """
    stored = {n: t if t.dtype in _KINDS else t.float() for n, t in tensors(record).items()}
    # the widest numbers first, so that each tensor begins at a multiple of its numbers' size
    ordered = sorted(stored.items(), key=lambda item: -item[1].itemsize)
    metadata = {
        "format": COMPUTED if isinstance(record.patterns, ComputedPatterns) else FORMAT,
        "record": _json(describe(record)),
    }
    header: dict[str, Any] = {"__metadata__": metadata | {HASH: _hash(metadata, stored)}}
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        shape = list(tensor.shape)
        header[name] = {"dtype": _KINDS[tensor.dtype], "shape": shape, "data_offsets": [begin, end]}
    text = _json(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise RecordError(
            f"The text and the tokens of a record may take {MAX_HEADER_BYTES:,} bytes in its file, "
            f"these take {len(text):,}: attend to a shorter text."
        )
    start = memoryview(len(text).to_bytes(8, "little") + text)
    return [start, *(_bytes(tensor) for _, tensor in ordered)]


def _hash(metadata: Mapping[str, str], stored: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of what a file says and holds, however its tensors lie in it."""
    kinds = [
        [name, _KINDS[tensor_of_name.dtype], list(tensor_of_name.shape)]
        for name, tensor_of_name in sorted(stored.items())
    ]
    digest = hashlib.sha256(json.dumps([metadata["format"], metadata["record"], kinds]).encode())
    for _, tensor in sorted(stored.items()):
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def tensors(record: Any) -> dict[str, Tensor]:
    """Return a record's tensors by name; NotKeptError if its own weights take over 2 GiB."""
    stored = {name: getattr(record, name) for name in TENSORS[1:]}
    patterns = record.patterns
    if isinstance(patterns, ComputedPatterns):
        stored |= _computing(patterns)[0]
    else:
        stored["pattern"] = patterns.all()
    return {name: tensor for name, tensor in stored.items() if tensor is not None}


def _computing(patterns: ComputedPatterns) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Return the tensors that weights are computed from, and each layer's rules.

    A rule names its layer's tensors: a mask that layers share is written once.
    """
    stored: dict[str, Tensor] = {}
    names: dict[int, str] = {}
    rules = []
    layers = zip(patterns.query, patterns.key, patterns.scoring, strict=True)
    for number, (query, key, scoring) in enumerate(layers):
        stored |= {f"query.{number}": query, f"key.{number}": key}
        optional = {"sinks": scoring.sinks, "mask": scoring.sight.mask, "bias": scoring.bias}
        rule: dict[str, Any] = {"scale": scoring.scale, "softcap": scoring.softcap}
        rule |= {"before": scoring.sight.before, "after": scoring.sight.after}
        for name, tensor in optional.items():
            rule[name] = None
            if tensor is not None:
                rule[name] = names.setdefault(id(tensor), f"{name}.{number}")
                stored.setdefault(rule[name], tensor)
        rules.append(rule)
    return stored, rules


def _computed(rules: list[Any], stored: dict[str, Tensor]) -> ComputedPatterns:
    """Read what `_computing` wrote; what it uses of the tensors goes."""
    query = tuple(stored.pop(f"query.{number}") for number in range(len(rules)))
    key = tuple(stored.pop(f"key.{number}") for number in range(len(rules)))
    shared = {name: stored.pop(name) for name in list(stored) if "." in name}
    scoring = []
    for rule in rules:
        values = {name: value for name, value in _of(dict, rule).items() if value is not None}
        named = {name: shared[_text(values[name])] for name in ("sinks", "bias") if name in values}
        band = {name: _count(values[name]) for name in ("before", "after") if name in values}
        mask = shared[_text(values["mask"])] if "mask" in values else None
        softcap = _finite(values["softcap"]) if "softcap" in values else None
        scale = _finite(values["scale"])
        scoring.append(Scoring(scale, softcap, sight=Sight(**band, mask=mask), **named))
    return ComputedPatterns(query, key, tuple(scoring))


def _json(value: object) -> str:
    """Write letters as they are, not as longer escapes: no text is too long for that."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # halves of characters, which UTF-8 does not have
        return json.dumps(value)
    return text


def _bytes(tensor: Tensor) -> memoryview:
    """Return a tensor's numbers one after another; not copied where they lie so already."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def describe(record: Any) -> dict[str, Any]:
    """Describe everything of a record but its tensors, as plain JSON values."""
    axes = {axis: getattr(record, axis) for axis in ("tokens", "key_tokens")}
    patterns, numbers = record.patterns, record.layer_numbers
    computed = _computing(patterns)[1] if isinstance(patterns, ComputedPatterns) else None
    return {
        **{name: getattr(record, name) for name in (*_TEXTS, "text_pair", *_FLAGS)},
        "scale": list(record.scale),
        "notes": list(record.notes),
        "shape": list(record.shape),
        **({} if computed is None else {"computed": computed}),
        **({} if is_counted(numbers) else {"layer_numbers": list(numbers)}),
        **{axis: [list(astuple(token)) for token in tokens] for axis, tokens in axes.items()},
    }


def read(path: Path) -> dict[str, Any]:
    """Read the fields of a record, each checked to be of its type."""
    if not path.is_file():
        raise RecordError(f"No record file at {path}.")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise RecordError(f"{path.name} is larger than {of_bytes(MAX_FILE_BYTES)}.")
    try:
        with path.open("rb") as raw:
            n_header = int.from_bytes(raw.read(8), "little")
        if MAX_HEADER_BYTES < n_header <= path.stat().st_size:
            raise ValueError(
                f"its header has {n_header:,} bytes, and that of a record {MAX_HEADER_BYTES:,} at "
                "the most"
            )
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") not in (FORMAT, COMPUTED):
                raise RecordError(
                    f"{path.name} is not a record of attention: expected format {FORMAT!r} in its "
                    f"header, got {header.get('format')!r:.40}."
                )
            stored = {name: file.get_tensor(name) for name in file.keys()}
        _check_hash(header, stored)
        raw = json.loads(header["record"])
        if header["format"] == COMPUTED:
            patterns: Patterns = _computed(_of(list, raw.pop("computed")), stored)
        elif "pattern" in stored:
            patterns = StoredPatterns(stored.pop("pattern"))
        else:
            raise ValueError("it holds no pattern")
        if foreign := set(stored) - set(TENSORS[1:]):
            raise ValueError(f"it holds what no record has: {', '.join(sorted(foreign)):.80}")
        _check_values(stored)
        if HASH not in header and isinstance(patterns, StoredPatterns):
            _check_rows(patterns.weights, bool(raw["merged"]), stored)
        return {**stored, "patterns": patterns, **_fields(raw, patterns.shape)}
    except RecordError:
        raise
    except _FAULTS as error:
        raise RecordError(f"{path.name} cannot be read as a record: {error!s:.300}") from error


def _check_hash(header: Mapping[str, str], stored: Mapping[str, Tensor]) -> None:
    if foreign := set(header) - {"format", "record", HASH}:
        raise ValueError(f"its header has a field of no record: {', '.join(sorted(foreign)):.80}")
    if HASH in header and _hash(header, stored) != header[HASH]:
        raise ValueError("it was damaged or changed since it was written: its hash is another")


def _check_values(stored: Mapping[str, Tensor]) -> None:
    """Check what was kept beside the weights; the record checks those."""
    for name, tensor in stored.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"its {name} holds numbers that are not finite")


def _check_rows(weights: Tensor, is_merged: bool, stored: Mapping[str, Tensor]) -> None:
    """Check the sums of rows of weights: 1, or what a sink and what was removed left; 0 for none.

    A row of a merged word is the mean of its tokens' rows; some of these may see nothing.
    """
    if is_merged or weights.ndim != 4 or not weights.is_floating_point():
        return
    sums = weights.sum(-1)
    remaining = torch.ones_like(sums)
    for name in ("sink", "removed"):
        if name in stored and stored[name].shape == sums.shape:
            remaining = remaining * (1 - stored[name].float())
    wrong = torch.stack(
        [(sums - expected).abs() > _LEAST_REST for expected in (1.0, 0.0, remaining)]
    ).all(0)
    if bool(wrong.any()):
        layer, head, row = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"the weights of token {row} sum to {float(sums[layer, head, row]):.3g} in L{layer} "
            f"H{head}, and not to 1 or to what its sink and the tokens left out leave"
        )


def _fields(raw: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    pair = raw["text_pair"]
    if raw["shape"] != list(shape):  # layers may be gone from one of them, or too many
        raise ValueError(
            f"its pattern has the shape {list(shape)}, its header says {raw['shape']!r:.40}"
        )
    fields = {
        **{name: _text(raw[name]) for name in _TEXTS},
        **{name: _of(bool, raw[name]) for name in _FLAGS},
        "text_pair": None if pair is None else _text(pair),
        "scale": tuple(_finite(value) for value in _of(list, raw["scale"])),
        "notes": tuple(_text(note) for note in _of(list, raw["notes"])),
        "layer_numbers": tuple(map(_count, _of(list, raw.get("layer_numbers", [])))),
        **{axis: tuple(map(_from_list, _of(list, raw[axis]))) for axis in ("tokens", "key_tokens")},
    }
    if foreign := set(raw) - {*fields, "shape"}:
        raise ValueError(f"its header tells what no record has: {', '.join(sorted(foreign)):.80}")
    return fields


def _from_list(raw: list[Any]) -> Token:
    text, number, *offsets, is_special, segment, parts = _of(list, raw)
    start, end, word = (None if offset is None else _count(offset) for offset in offsets)
    flags = _of(bool, is_special), _count(segment), _count(parts, 1)
    return Token(_text(text), _count(number, -1), start, end, word, *flags)


def _count(value: Any, least: int = 0) -> int:
    """Check a whole number that a tensor can hold; JSON's have no end."""
    number: int = _of(int, value)
    if not least <= number < 2**31:
        raise ValueError(f"a number of a token lies in {least}..{2**31 - 1}, got {number!s:.40}")
    return number


def _finite(value: Any) -> float:
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"a scale is a finite number, got {number}")
    return number


def _of(kind: type, value: Any) -> Any:
    """Return the value, if it is of exactly that type (True is no int here)."""
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {value!r:.40}")
    return value


def _text(value: Any) -> str:
    text: str = _of(str, value)
    text.encode()  # JSON can spell half a character, which no file or screen takes
    return text
