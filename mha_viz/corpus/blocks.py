"""The rows of a shard as arrays: a number for each text, head and metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from jaxtyping import Float, Int, Num

from mha_viz.corpus.storage import shard_folder, shards_with_texts
from mha_viz.errors import StudyError

INDEX = ("text_id", "n_tokens", "layer", "head")  # the columns that are no metric


@dataclass(frozen=True)
class Block:
    """One table of one shard.

    Args:
        text_ids: of its texts.
        columns: names of the last axis: metrics, or baselines of metrics.
        values: NaN where not defined; `place` counts heads through all layers, or layers.
    """

    text_ids: Int[np.ndarray, "text"]
    columns: tuple[str, ...]
    values: Num[np.ndarray, "text place column"]


def columns_of(folder: Path, table: str) -> tuple[str, ...]:
    """The columns of numbers in a table of a study; none where the study has no such table."""
    return number_columns(first_of(folder, table)) if shards_with_texts(folder) else ()


def number_columns(path: Path) -> tuple[str, ...]:
    """The columns of numbers in the file of a table; none where there is no such file."""
    names = pq.read_schema(path).names if path.exists() else ()
    return tuple(name for name in names if name not in INDEX)


def first_of(folder: Path, table: str) -> Path:
    """The file of a table in the first shard that has texts; it may lack that table."""
    return shard_folder(folder, shards_with_texts(folder)[0]) / f"{table}.parquet"


def read_block(
    folder: Path, number: int, table: str, columns: tuple[str, ...], n_places: int
) -> Block:
    """A table of one shard, some of its columns.

    Args:
        folder: of the study.
        number: of the shard.
        table: "texts", "untrained" or "chance".
        columns: of `columns_of`.
        n_places: rows for each text: heads of all layers, or layers.

    Raises:
        StudyError: it does not have that many rows for each text.
    """
    path = shard_folder(folder, number) / f"{table}.parquet"
    with pq.ParquetFile(path) as file:  # a third of the work of `read_table`, for small files
        found = file.read(["text_id", *columns], use_threads=False)
    ids = found["text_id"].to_numpy().reshape(-1, n_places) if not len(found) % n_places else None
    if ids is None or (ids != ids[:, :1]).any():
        raise StudyError(f"{path} was changed: expected {n_places} rows for each text, in order.")
    flat = [found[name].to_numpy().reshape(ids.shape) for name in columns]
    values = np.stack(flat, -1) if flat else np.empty((*ids.shape, 0), np.float32)
    return Block(ids[:, 0], columns, values)


def texts_of(folder: Path, number: int) -> list[str]:
    """The texts of a shard, in the order of its rows."""
    path = shard_folder(folder, number) / "sentences.parquet"
    return list(pq.read_table(path, columns=["text"])["text"].to_pylist())


def whole_column(
    folder: Path, table: str, column: str, n_places: int
) -> Float[np.ndarray, "text place"]:
    """One column over all shards: as many numbers as there are texts and heads."""
    parts: Iterator[np.ndarray] = (
        read_block(folder, number, table, (column,), n_places).values[..., 0]
        for number in shards_with_texts(folder)
    )
    return np.concatenate(list(parts))
