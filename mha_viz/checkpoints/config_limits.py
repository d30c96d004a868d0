"""Limits of the numbers in a config: sizes, counts, and lists that a family writes out by them.

Imports neither torch nor transformers, as a list of models reads configs, too.
"""

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

# Kinds of sizes, each with the keys of a config that hold one, and the most that it may be.
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("limits.toml").read_text("utf-8"))
LIMITS = {kind: (limit["keys"], limit["most"]) for kind, limit in TABLES["config"].items()}
_COUNTS, _WHOLE = (
    (re.compile(TABLES[kind]["pattern"]), TABLES[kind]["most"]) for kind in ("counts", "whole")
)
_LAYERS = LIMITS["layers"][1]


def check_limits(config: dict[str, Any], name: str) -> None:
    """Refuse sizes and kinds of values that no real config has, before a library expands them."""
    for part in _objects(config):
        for key, value in part.items():
            _check_number(key, value, name)
        _check_sizes(part, name)
        _check_kinds(part, name)
        _check_attention_types(part, name)


def _check_sizes(part: dict[str, Any], name: str) -> None:
    for noun, (keys, most) in LIMITS.items():
        for key in keys:
            value = part.get(key)
            if value is None or isinstance(value, list):
                continue
            is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            if not is_whole or not 0 <= value <= most:
                raise _claims(name, key, value, f"at most {most:,} ({noun})")


def _check_number(key: str, value: Any, name: str) -> None:
    """Refuse a count of parts, or any other number, that would be written out as a long list."""
    numbers = value if isinstance(value, list) else [value]
    pattern, most = _COUNTS
    if pattern.search(key):
        largest = max((n for n in numbers if isinstance(n, int)), default=0)
        if largest > most:
            raise _claims(name, key, largest, f"at most {most:,}")
        if len(numbers) > most:
            raise _claims(name, f"{len(numbers):,} {key}", value, f"at most {most:,}")
    exempt, most = _WHOLE
    largest = max((abs(n) for n in numbers if isinstance(n, int)), default=0)
    if largest > most and not exempt.search(key):
        raise _claims(name, key, largest, f"at most {most:,}")


def _check_attention_types(part: dict[str, Any], name: str) -> None:
    """Refuse a list that GPT-Neo's config writes out: kinds of layers, and how often they come."""
    listed = part.get("attention_types")
    with suppress(TypeError, ValueError, KeyError, IndexError):  # its family says what is wrong
        n_layers = sum(len(item[0]) * item[1] for item in listed or ())
        if n_layers > _LAYERS:
            raise _claims(name, f"{n_layers:,} attention_types", listed, f"at most {_LAYERS:,}")


def _check_kinds(part: dict[str, Any], name: str) -> None:
    """Check the types that every family relies on and transformers does not check."""
    names = part.get("architectures")
    fits = {
        "architectures": names is None
        or (isinstance(names, list) and all(isinstance(label, str) for label in names)),
        "text_config": isinstance(part.get("text_config"), dict | None),
        "is_encoder_decoder": isinstance(part.get("is_encoder_decoder"), bool | None),
    }
    for key in (key for key, is_fit in fits.items() if not is_fit):
        raise BrokenCheckpointError(
            f"config.json of {name} has {key} = {part[key]!s:.60}, which is not what stands there "
            "in any model. Fetch it again."
        )


def _claims(name: str, key: str, value: Any, real: str) -> UnsafeCheckpointError:
    return UnsafeCheckpointError(
        f"config.json of {name} claims {key} = {value!r:.100}; a real model has {real}."
    )


def _objects(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the config and the objects inside it (of a text or vision part)."""
    pending: list[Any] = [config]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value
