"""A tested choice of heads as a small JSON file, which is checked when it is opened."""

from pathlib import Path
from typing import Any

from mha_viz.core.json_file import JsonKind, is_finite, is_text, is_whole

KIND, VERSION = "mha_viz circuit", 3
MAX_BYTES = 1_000_000
MAX_NAME = 300
WRITERS = "Faithfulness.save or `mha-viz circuits faithfulness --save`"
FILE = JsonKind(KIND, VERSION, MAX_BYTES, "a circuit", WRITERS)
OUTCOMES = ("held_out", "chosen_on")  # four settings and a standard error each
N_MEASURED = 5


def from_bytes(names: set[str], raw: bytes, file: str | Path) -> dict[str, Any]:
    """Decode the fields that `FILE.to_bytes` was given, and check each; else raise RecordError."""
    fields = FILE.from_bytes(names, raw, file)
    fault = _fault(fields)
    if fault:
        raise FILE.wrong(file, fault)
    fields["heads"] = tuple((layer, head) for layer, head in fields["heads"])
    for name in (*OUTCOMES, "random_alone", "random_missing"):
        fields[name] = tuple(map(float, fields[name]))
    return fields


def _fault(given: dict[str, Any]) -> str:
    """Say what is wrong with the fields; "" where nothing is."""
    for name in ("model", "task"):
        if not is_text(given[name], MAX_NAME):
            return f"{name} is not a short text"
    if given["stand_in"] not in ("mean", "corrupt"):
        return "stand_in is neither “mean” nor “corrupt”"
    for name in ("seed", "n_examples", "n_layers", "n_heads"):
        if not is_whole(given[name]):
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


def _all_finite(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_finite, value))


def _is_head(value: Any, n_layers: int, n_heads: int) -> bool:
    pair = isinstance(value, list) and len(value) == 2
    return pair and is_whole(value[0], 0, n_layers - 1) and is_whole(value[1], 0, n_heads - 1)
