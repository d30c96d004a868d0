"""Checks of a record: its tokens, the shapes of its tensors, and the numbers in them.

`record` calls it for each new record.
"""

from operator import index
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from mha_viz.core.record.fields import RecordFields, Token
from mha_viz.errors import ArgumentError, RecordError

Place = tuple[SupportsIndex, SupportsIndex]  # a layer and a head


def check_tokens(name: str, tokens: Any) -> tuple[Token, ...]:
    """Return a tuple of tokens, or raise a RecordError that says how to get one from strings."""
    if isinstance(tokens, str) or not isinstance(tokens, tuple | list):
        raise RecordError(f"{name} must be a tuple of Token, got {type(tokens).__name__}.")
    for position, token in enumerate(tokens):
        if not isinstance(token, Token):
            raise RecordError(
                f"{name} must hold Token, got {type(token).__name__} at place {position}: "
                "mha_viz.record(attentions, tokens) takes plain strings."
            )
    return tuple(tokens)


def check_place(head_name: Any) -> tuple[int, int]:
    """Return a layer and a head as ints, from any kind of whole number; they need not exist."""
    try:
        layer, head = head_name
        return index(layer), index(head)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"A head is named by (layer, head), got {head_name!r:.60}.") from error


def place_in(record: RecordFields, layer: Any, head: Any) -> tuple[int, int]:
    """Return a layer and a head counted from 0; ArgumentError where the record has none such."""
    at = check_position("layer", layer, record.n_layers)
    return at, check_position("head", head, record.n_heads)


def check_positions(name: str, positions: Any, size: int) -> slice | Tensor:
    """Return places on an axis, a slice or whole numbers, as an index that fits; none is empty."""
    if isinstance(positions, slice):
        try:
            start, stop, step = positions.indices(size)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{name} must be a slice of whole numbers: {error}.") from error
        if step > 0 and start < stop:
            return slice(start, stop, step)
        raise ArgumentError(
            f"{name} must be a slice of some of the {size} tokens, got {positions}."
        )
    try:
        indices = [check_position(name, position, size) for position in positions]
    except TypeError as error:
        raise ArgumentError(
            f"{name} must be a slice or whole numbers such as [0, 4], got {positions!r:.60}."
        ) from error
    if not indices:
        raise ArgumentError(f"{name} must name a token at least, got none.")
    return torch.tensor(indices)


def check_position(name: str, value: Any, size: int) -> int:
    """Return a place on an axis, counted from 0; negative numbers count from the end."""
    try:
        position = index(value)
    except TypeError as error:
        raise ArgumentError(f"{name} must be a whole number, got {value!r:.60}.") from error
    if not -size <= position < size:
        raise ArgumentError(f"{name} must lie in 0..{size - 1}, got {position}.")
    return position % size


def check_record(record: RecordFields) -> None:
    """Raise RecordError unless shapes agree and the pattern holds attention weights."""
    record.patterns.check()
    layers, _, queries, keys = record.shape
    if (len(record.tokens), len(record.key_tokens)) != (queries, keys):
        raise RecordError(
            f"pattern has {queries} queries and {keys} keys, but there are {len(record.tokens)} "
            f"tokens and {len(record.key_tokens)} key tokens."
        )
    _check_kept(record)
    _check_allowed(record)
    if record.W_O and len(record.W_O) != layers:
        raise RecordError(f"W_O must have {layers} layers, got {len(record.W_O)}.")
    if record.scale and len(record.scale) != layers:
        raise RecordError(f"scale must have {layers} layers, got {len(record.scale)}.")


def _check_kept(record: RecordFields) -> None:
    """Check that what is kept besides the pattern fits it."""
    layers, heads, queries, keys = record.shape
    positions = {"z": queries, "query": queries, "key": keys, "value": keys}
    positions |= {"removed": queries, "sink": queries}
    for name, length in positions.items():
        tensor: Tensor | None = getattr(record, name)
        if tensor is None:
            continue
        shape, ndim = (layers, heads, length), 3 if name in ("removed", "sink") else 4
        n_stored_heads = tensor.shape[1] if tensor.ndim == ndim else 0
        shared = name in ("key", "value")  # query heads may share key heads
        alike = n_stored_heads == heads or (
            shared and n_stored_heads > 0 and heads % n_stored_heads == 0
        )
        fits = alike and (tensor.shape[0], tensor.shape[2]) == (layers, length)
        if not fits or not tensor.is_floating_point():
            raise RecordError(
                f"{name} must be floating point of {ndim} axes that begin with {shape}"
                f"{', or fewer heads that divide these,' if shared else ''}, got {tensor.dtype} "
                f"of shape {tuple(tensor.shape)}."
            )
    for name in ("removed", "sink"):
        shares: Tensor | None = getattr(record, name)
        if shares is not None and not ((shares >= 0) & (shares <= 1)).all():
            raise RecordError(f"{name} must hold shares of a row's mass, in [0, 1].")


def _check_allowed(record: RecordFields) -> None:
    """Check that the mask covers every token, those of merged words as well."""
    if record.allowed is None:
        return
    axes = (sum(token.parts for token in axis) for axis in (record.tokens, record.key_tokens))
    expected = (record.n_layers, *axes)
    if record.allowed.dtype != torch.bool or tuple(record.allowed.shape) != expected:
        raise RecordError(
            f"allowed must be bool (layer, query, key) of shape {expected}, got "
            f"{record.allowed.dtype} of shape {tuple(record.allowed.shape)}."
        )
