"""Results that labs and pages open with, precomputed and stored with the app as safetensors.

`python -m models.store_lab_runs` writes them; an extended test compares each with a live run.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from mha_viz.core.output_file import write_file

FOLDER = Path(__file__).parents[1] / "learn" / "runs"
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class StoredRun(Generic[T]):
    """A run that is stored, and the way to repeat it."""

    name: str  # of its file, without the ending
    settings: tuple[object, ...]  # that it was made with, as those of `long_work.LabRun`
    # the type of its result: a dataclass, a NamedTuple, a tuple or dict of such, of tensors, numpy
    # arrays, DataFrames of numbers and strings, numbers, strings and None
    kind: Any
    make: Callable[[], T]  # computes the result anew

    @property
    def path(self) -> Path:
        """The file that holds the result."""
        return FOLDER / f"{self.name}.safetensors"


@lru_cache(maxsize=8)
def read(run: StoredRun[T]) -> T:
    """Read a stored result; it is shared by all sessions, so nobody may write into it.

    Raises OSError, SafetensorError: the file is missing or damaged.
    """
    with safe_open(run.path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}
        tree = json.loads(file.metadata()["tree"])
    return _unpacked(run.kind, tree, tensors)


def write(run: StoredRun[T], result: T) -> None:
    """Store a result."""
    tensors: dict[str, Tensor] = {}
    tree = _packed(result, "", tensors)
    # Views would be stored whole, and shared memory not at all.
    content = save({k: t.detach().clone().contiguous() for k, t in tensors.items()}, {"tree": tree})
    write_file(run.path, content)


def _packed(value: Any, name: str, tensors: dict[str, Tensor]) -> str:
    """Move the arrays of a value into `tensors`, and return all else as JSON."""

    def tree(value: Any, name: str) -> Any:
        if isinstance(value, Tensor | np.ndarray):
            tensors[name] = value if isinstance(value, Tensor) else torch.tensor(value)
            return name
        if isinstance(value, pd.DataFrame):
            columns = {column: values.to_numpy() for column, values in value.items()}
            return tree(
                {c: v.tolist() if v.dtype == object else v for c, v in columns.items()}, name
            )
        if is_dataclass(value):
            return {f.name: tree(getattr(value, f.name), f"{name}.{f.name}") for f in fields(value)}
        if isinstance(value, Mapping):
            return [[key, tree(member, f"{name}.{key}")] for key, member in value.items()]
        if isinstance(value, list | tuple):
            return [tree(member, f"{name}.{i}") for i, member in enumerate(value)]
        return value

    return json.dumps(tree(value, name))


def _unpacked(kind: Any, tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put a value together again, as its type says."""
    if tree is None:
        return None
    kind = getattr(kind, "array_type", kind)  # of jaxtyping
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        (kind,) = (member for member in inner if member is not NoneType)
        return _unpacked(kind, tree, tensors)
    if not isinstance(origin, type):  # Any: a number or a string
        return tree
    if issubclass(origin, np.ndarray):
        return tensors[tree].numpy()
    if issubclass(origin, Tensor):
        return tensors[tree]
    if issubclass(origin, pd.DataFrame):
        return pd.DataFrame({c: tensors[v].numpy() if isinstance(v, str) else v for c, v in tree})
    if is_dataclass(origin):
        hints = get_type_hints(origin)
        return origin(
            **{name: _unpacked(hints[name], member, tensors) for name, member in tree.items()}
        )
    if issubclass(origin, Mapping):
        pairs = ((tuple(key) if isinstance(key, list) else key, member) for key, member in tree)
        return {key: _unpacked(inner[1], member, tensors) for key, member in pairs}
    if issubclass(origin, tuple) and hasattr(origin, "_fields"):  # a NamedTuple
        kinds = tuple(get_type_hints(origin).values())
        return origin(*(_unpacked(*pair, tensors) for pair in zip(kinds, tree, strict=True)))
    if issubclass(origin, list | tuple):
        kinds = inner if origin is tuple and inner[1:] != (...,) else inner[:1] * len(tree)
        return origin(_unpacked(*pair, tensors) for pair in zip(kinds, tree, strict=True))
    return tree
