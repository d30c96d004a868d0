"""Other views of a record: words for sub-words, some tokens left out, one long table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.record.checks import check_positions
from mha_viz.core.record.derived import KeptPatterns, MergedPatterns, Runs
from mha_viz.core.record.fields import RecordFields, merge
from mha_viz.core.record.patterns import Patterns, StoredPatterns
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd

Record = TypeVar("Record", bound=RecordFields)


def merged(record: Record) -> Record:
    """Merge the sub-words of a record: see `AttentionRecord.merge_words`."""
    rows, tokens = merge(record.tokens, record.text, record.text_pair)
    columns, key_tokens = merge(record.key_tokens, record.text, record.text_pair)
    queries = Runs(rows)

    def averaged(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else queries.averaged(tensor, 2)

    changes: dict[str, Any] = dict.fromkeys(("query", "key", "value"))
    changes |= {name: averaged(getattr(record, name)) for name in ("z", "removed", "sink")}
    changes |= dict(tokens=tokens, key_tokens=key_tokens, merged=True)
    patterns = MergedPatterns(record.patterns, queries, Runs(columns))
    return replace(record, patterns=_kept_alike(record, patterns), **changes)


def without(record: Record, no_query: list[bool], no_key: list[bool], renormalize: bool) -> Record:
    """Leave some tokens out; see `AttentionRecord.without_special`."""
    if not any(no_query) and not any(no_key):
        return record
    rows = [i for i, out in enumerate(no_query) if not out]
    columns = [i for i, out in enumerate(no_key) if not out]
    if not rows or not columns:
        raise ArgumentError("Nothing would be left: every token of this record is removed.")
    patterns = KeptPatterns(record.patterns, torch.tensor(rows), torch.tensor(columns), renormalize)
    removed = patterns.removed_mass()
    if record.removed is not None:  # this removal acts on what the one before left
        removed = 1 - (1 - record.removed[:, :, rows]) * (1 - removed)
    indices = {"z": rows, "query": rows, "key": columns, "value": columns, "sink": rows}
    changes: dict[str, Any] = {name: _at(getattr(record, name), at) for name, at in indices.items()}
    return replace(
        record,
        patterns=_kept_alike(record, patterns),
        tokens=tuple(record.tokens[i] for i in rows),
        key_tokens=tuple(record.key_tokens[i] for i in columns),
        **changes,
        removed=removed,
        allowed=_still_allowed(record, no_query, no_key),
    )


def between(record: Record, query_segment: int, key_segment: int) -> Record:
    """Keep what one text of a pair looks at in the other: the weights of these tokens alone."""
    no_query = [token.segment != query_segment for token in record.tokens]
    no_key = [token.segment != key_segment for token in record.key_tokens]
    return without(record, no_query, no_key, renormalize=False)


def weight_among(record: Record, tokens: Sequence[int]) -> Float[Tensor, "layer head"]:
    """Return how much some tokens look at each other in every head, themselves included.

    That is the sum of a row's weights on these tokens, averaged over the tokens that look. Times
    their number it is the sum of all weights from the set to the set. `tokens` are places on both
    axes, counted from 0; each counts once. Returns a number in [0, 1] for each head; 1 where they
    look at nothing else. Raises ArgumentError: no such token, or none.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-bert").trace("The cat sat")
    >>> bool((weight_among(record, range(5)) - 1).abs().max() < 1e-5)
    True
    """
    n_layers, _, queries, keys = record.patterns.shape
    positions = check_positions("tokens", sorted(set(tokens)), min(queries, keys))
    layers = (record.patterns.full_rows(layer, positions) for layer in range(n_layers))
    return torch.stack([rows[..., positions].sum(-1).mean(-1).cpu() for rows in layers])


def long_table(
    pattern: Float[Tensor, "layer head query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    layer_numbers: Sequence[int],
) -> pd.DataFrame:
    """Build a table with a row for each weight: see `AttentionRecord.to_frame`."""
    import pandas as pd  # late: a record is read without it

    def labels_at(labels: Sequence[str], positions: NDArray[np.integer]) -> pd.Categorical[str]:
        codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
        numbers = np.array([codes[label] for label in labels])
        return pd.Categorical.from_codes(numbers[positions], pd.Index(list(codes)))

    small = np.int16 if max(pattern.shape) < 2**15 else np.int32
    axes = np.indices(tuple(pattern.shape), dtype=small)
    layer, head, query, key = (axis.ravel() for axis in axes)
    numbers = np.array(layer_numbers, small)[layer]
    table: dict[str, Any] = dict(layer=numbers, head=head, query=query, key=key)
    table["query_token"] = labels_at(query_labels, query)
    table["key_token"] = labels_at(key_labels, key)
    return pd.DataFrame(table | dict(weight=pattern.cpu().numpy().ravel()))


def _kept_alike(record: RecordFields, derived: Patterns) -> Patterns:
    """Store weights that follow from stored ones; compute those that follow from computed ones."""
    return StoredPatterns(derived.all()) if isinstance(record.patterns, StoredPatterns) else derived


def _at(tensor: Tensor | None, positions: list[int]) -> Tensor | None:
    if tensor is None:
        return None
    first, end = positions[0], positions[-1] + 1
    if end - first == len(positions):  # neighbours are a view
        return tensor[:, :, first:end]
    return tensor[:, :, positions]


def _still_allowed(record: RecordFields, no_query: list[bool], no_key: list[bool]) -> Tensor | None:
    """Return the mask without what is left out; of a word all its tokens."""
    if record.allowed is None:
        return None
    rows, columns = (
        [not out for token, out in zip(axis, removed, strict=True) for _ in range(token.parts)]
        for axis, removed in ((record.tokens, no_query), (record.key_tokens, no_key))
    )
    return record.allowed[:, rows][:, :, columns]
