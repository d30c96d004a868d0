"""A tested choice of heads as a small JSON file, which is checked when it is opened."""

import json
import re
from pathlib import Path
from typing import Any

from mha_viz.errors import RecordError

KIND, VERSION = "mha_viz circuit", 3
MAX_BYTES = 1_000_000
MAX_NAME = 300
MAX_NUMBER = 1e100  # of what is measured: the difference of two stays finite
OUTCOMES = ("held_out", "chosen_on")  # four settings and a standard error each
N_MEASURED = 5
_HALF = re.compile("[\ud800-\udfff]")


def to_bytes(fields: dict[str, Any]) -> bytes:
    """Encode the fields of a circuit with its kind and version."""
    content = {"kind": KIND, "version": VERSION, **fields}
    return (json.dumps(content, indent=1) + "\n").encode()


def read(path: Path) -> bytes:
    """Read a file that is small enough to be a circuit; else raise RecordError."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would never end
            raise _wrong(path, "it is no regular file")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, RecordError):
            raise
        raise _wrong(path, getattr(error, "strerror", None) or "no file has such a name") from error


def from_bytes(names: set[str], raw: bytes, file: str | Path) -> dict[str, Any]:
    """Decode the fields that `to_bytes` was given, and check each; else raise RecordError."""
    content = _parsed(raw, file)
    if content.get("kind") != KIND or set(content) != names | {"kind", "version"}:
        raise _wrong(file, f"its kind or its fields are not those of “{KIND}”")
    if content["version"] != VERSION:
        raise _wrong(
            file, f"its version is {content['version']!r:.40}, and {VERSION} is known here"
        )
    fields = {name: content[name] for name in names}
    fault = _fault(fields)
    if fault:
        raise _wrong(file, fault)
    fields["heads"] = tuple((layer, head) for layer, head in fields["heads"])
    for name in (*OUTCOMES, "random_alone", "random_missing"):
        fields[name] = tuple(map(float, fields[name]))
    return fields


def _parsed(raw: bytes, file: str | Path) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise _wrong(file, f"it is larger than {MAX_BYTES:,} bytes")
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _wrong(file, "it is not JSON") from error
    if not isinstance(content, dict):
        raise _wrong(file, "it is not an object")
    return content


def _fault(given: dict[str, Any]) -> str:
    """Say what is wrong with the fields; "" where nothing is."""
    for name in ("model", "task"):
        value = given[name]
        # JSON can spell half a character, which no screen takes.
        if not isinstance(value, str) or len(value) > MAX_NAME or _HALF.search(value):
            return f"{name} is not a short text"
    if given["stand_in"] not in ("mean", "corrupt"):
        return "stand_in is neither “mean” nor “corrupt”"
    for name in ("seed", "n_examples", "n_layers", "n_heads"):
        if not _whole(given[name]) or not 0 <= given[name] < 2**53:
            return f"{name} is not a whole number"
    for name in OUTCOMES:
        values = given[name]
        if not _all_finite(values) or len(values) != N_MEASURED or values[-1] < 0:
            return f"{name} is not {N_MEASURED} finite numbers, the last of them an error"
    heads, sizes = given["heads"], (given["n_layers"], given["n_heads"])
    if not isinstance(heads, list) or not all(_is_head(head, *sizes) for head in heads):
        return "heads are not (layer, head) pairs of this model"
    if not 0 < len({tuple(head) for head in heads}) == len(heads) < sizes[0] * sizes[1]:
        return "heads are none, all, or named twice"
    alone, missing = given["random_alone"], given["random_missing"]
    if not (_all_finite(alone) and _all_finite(missing) and 2 <= len(alone) == len(missing)):
        return "the random choices are not two lists of as many finite numbers"
    return ""


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: Any) -> bool:
    """Tell a number that a float holds; JSON's whole numbers have no end."""
    return (_whole(value) or isinstance(value, float)) and abs(value) <= MAX_NUMBER


def _all_finite(value: Any) -> bool:
    return isinstance(value, list) and all(map(_finite, value))


def _is_head(value: Any, n_layers: int, n_heads: int) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not all(map(_whole, value)):
        return False
    return 0 <= value[0] < n_layers and 0 <= value[1] < n_heads


def _wrong(file: str | Path, reason: str) -> RecordError:
    return RecordError(
        f"{file} is not a circuit that can be opened here: {reason}. Give a file that "
        "Faithfulness.save or `mha-viz circuits faithfulness --save` wrote."
    )
