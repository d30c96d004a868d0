"""Records of words and numbers, read from the TOML files beside the code.

Standard library only: the list of labs must be there before anything heavy is imported.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read_records(kind: type[T], path: Path, table: str) -> tuple[T, ...]:
    """Read the array `table` of a TOML file as dataclasses, in the order of the file.

    Raises:
        ValueError: a field that the dataclass does not have, one that is missing, or one of
            another type; the message names file, entry and field.
    """
    entries = tomllib.loads(path.read_text("utf-8"))[table]
    return tuple(
        _record(kind, entry, f"{path.name}, {table} {number}")
        for number, entry in enumerate(entries, 1)
    )


def _record(kind: type[T], entry: Mapping[str, Any], where: str) -> T:
    hints, known = get_type_hints(kind), fields(kind)  # type: ignore[arg-type]
    required = {
        one.name for one in known if one.default is MISSING and one.default_factory is MISSING
    }
    if wrong := entry.keys() - {one.name for one in known} or required - entry.keys():
        raise ValueError(f"{where}: unknown or missing: {', '.join(sorted(wrong))}.")
    return kind(**{name: _value(hints[name], x, f"{where}, {name}") for name, x in entry.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    """Return a value with tuples for arrays and dataclasses for tables, as the type says."""
    origin = get_origin(hint) or hint
    if origin is tuple and isinstance(value, list):
        item = get_args(hint)[0]
        return tuple(_value(item, part, f"{where} {i}") for i, part in enumerate(value, 1))
    if is_dataclass(origin) and isinstance(value, dict):
        return _record(origin, value, where)  # type: ignore[arg-type]
    if not isinstance(value, origin):
        raise ValueError(f"{where}: {value!r} is no {origin.__name__}.")
    return MappingProxyType(value) if isinstance(value, dict) else value
