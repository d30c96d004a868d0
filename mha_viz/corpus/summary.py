"""What is made of all shards once they are there: small tables of heads, and edges to search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mha_viz.corpus.blocks import (
    INDEX,
    columns_of,
    files_of,
    first_of,
    read_block,
    texts_of,
    whole_column,
)
from mha_viz.corpus.edges_index import sort_edges
from mha_viz.corpus.intervals import Resamples, sorted_quantiles, text_weights
from mha_viz.corpus.labels import corpus_labels
from mha_viz.corpus.storage import shards_with_texts, write_table

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
# Rows by text -> the table of their means.
MEANS = {"texts": "heads", "untrained": "untrained_heads", "chance": "chance_layers"}
# Tables whose rows add up over shards, and what says that two rows are of the same.
ADDED_UP = {
    "profile": ("layer", "head", "axis", "at"),
    "pairs": ("measure", "i", "j"),
    "histogram": ("metric", "layer", "head", "bin"),
    "parts_of_speech": ("layer", "head", "from_upos", "to_upos"),
    "relations": ("half", "relation", "direction", "layer", "head"),
    "untrained_relations": ("half", "relation", "direction", "layer", "head"),
    "relation_offsets": ("half", "relation", "direction", "offset"),
    "coreference": ("half", "layer", "head"),
    "untrained_coreference": ("half", "layer", "head"),
}


def summarise(folder: Path, n_layers: int, n_heads: int) -> dict[str, int]:
    """Write the summaries of a study whose shards are complete.

    Each is a Parquet file in the study's folder. Everything is added up in the order of shards and
    in one thread, so that the same shards give the same bytes.

    Args:
        folder: of the study; at least one text was measured.
        n_layers: of the model.
        n_heads: of a layer.

    Returns:
        File name -> size in bytes.
    """
    rows = {"texts": n_layers * n_heads, "untrained": n_layers * n_heads, "chance": n_layers}
    tables = {
        name: _means(folder, name, n_places)
        for name, n_places in rows.items()
        if columns_of(folder, name)
    }
    made = {MEANS[name]: table for name, table in tables.items()}
    made["labels"] = corpus_labels(folder, n_layers, n_heads, tables)
    for name, table in made.items():
        _write(folder, name, pa.Table.from_pandas(table, preserve_index=False))
    for name, keys in ADDED_UP.items():
        if parts := files_of(folder, name):
            _write(folder, name, _added_up(parts, keys))
    sort_edges(folder)
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.parquet"))}


def _write(folder: Path, name: str, table: pa.Table) -> None:
    """Under a name of its own first, then in its place."""
    draft = folder / f".{name}.part"
    write_table(draft, table)
    draft.replace(folder / f"{name}.parquet")


def _means(folder: Path, table: str, n_places: int) -> pd.DataFrame:
    """Each column over all texts, for each head (or layer): count, mean, spread and interval."""
    columns = columns_of(folder, table)
    resamples = Resamples(n_places * len(columns))
    for number in shards_with_texts(folder):
        block = read_block(folder, number, table, columns, n_places)
        weights = text_weights(texts_of(folder, number))
        resamples.add(weights, block.values.reshape(len(block.text_ids), -1))
    low, high = (end.reshape(n_places, -1) for end in resamples.interval())
    places = _places(folder, table, n_places)
    parts = [
        pd.DataFrame(
            {
                **places,
                "metric": column,
                **_spread(whole_column(folder, table, column, n_places)),
                "low": low[:, at],
                "high": high[:, at],
            }
        )
        for at, column in enumerate(columns)
    ]
    found = pd.concat(parts, ignore_index=True)
    defined = found.groupby("metric")["n_texts"].transform("max") > 0
    last = list(QUANTILES)
    return found.loc[defined, [*(c for c in found if c not in last), *last]]


def _places(folder: Path, table: str, n_places: int) -> dict[str, Any]:
    """Which layer, and which head, each row of a text is."""
    path = first_of(folder, table)
    known = [name for name in INDEX[2:] if name in pq.read_schema(path).names]
    first = pq.read_table(path, columns=known).slice(0, n_places)
    return {name: first[name].to_numpy() for name in known}


def _spread(values: np.ndarray) -> dict[str, np.ndarray]:
    """Count, mean, standard deviation and quantiles of each place, of the texts that have it."""
    known = ~np.isnan(values)
    n = known.sum(0)
    wide = np.where(known, values, 0).astype(float)
    mean = np.divide(wide.sum(0), n, out=np.full(len(n), np.nan), where=n > 0)
    squares = (np.where(known, wide - mean, 0) ** 2).sum(0)
    variance = np.divide(squares, n - 1, out=np.full(len(n), np.nan), where=n > 1)
    quantiles = sorted_quantiles(values, tuple(QUANTILES.values()))
    return {
        "n_texts": n,
        "mean": mean,
        "std": np.sqrt(variance),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def _added_up(parts: Sequence[Path], keys: tuple[str, ...]) -> pa.Table:
    """A table of sums over some files, a row for each of its keys."""
    total: pa.Table | None = None
    for path in parts:
        part = pq.read_table(path)
        both = part if total is None else pa.concat_tables([total, part])
        sums = [column for column in part.column_names if column not in keys]
        grouped = both.group_by(list(keys), use_threads=False)
        found = grouped.aggregate([(column, "sum") for column in sums])
        found = found.select([*keys, *(f"{column}_sum" for column in sums)])
        total = found.rename_columns([*keys, *sums]).cast(part.schema.remove_metadata())
    assert total is not None
    return total.sort_by([(key, "ascending") for key in keys])
