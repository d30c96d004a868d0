"""The rows of a shard as arrays: a number for each text, head and metric."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int, Num

from mha_viz.corpus.store.storage import shard_folder, shards_with_texts
from mha_viz.errors import StudyError

INDEX = ("text_id", "n_tokens", "layer", "head")  # the columns that are no metric


@dataclass(frozen=True)
class Block:
    """One table of one shard."""

    text_ids: Int[np.ndarray, "text"]  # of its texts
    columns: tuple[str, ...]  # names of the last axis: metrics, or baselines of metrics
    # NaN where not defined; `place` counts heads through all layers, or layers.
    values: Num[np.ndarray, "text place column"]

    def column(self, name: str) -> Float[np.ndarray, "text place"] | None:
        """Return one column, or None where there is none of that name."""
        if name not in self.columns:
            return None
        return self.values[..., self.columns.index(name)].astype(float)


def columns_of(folder: Path, table: str) -> tuple[str, ...]:
    """List the columns of numbers in a table of a study; none where it has no such table."""
    path = first_of(folder, table) if shards_with_texts(folder) else None
    return () if path is None or not path.exists() else number_columns(pq.read_schema(path).names)


def number_columns(names: Iterable[str]) -> tuple[str, ...]:
    """List the columns of numbers among those of a table."""
    return tuple(name for name in names if name not in INDEX)


def first_of(folder: Path, table: str) -> Path:
    """Return the file of a table in the first shard that has texts; it may lack that table."""
    return shard_folder(folder, shards_with_texts(folder)[0]) / f"{table}.parquet"


def read_block(
    folder: Path, number: int, table: str, columns: tuple[str, ...], n_places: int
) -> Block:
    """Read some columns of a table of one shard, which has `n_places` rows for each text."""
    path = shard_folder(folder, number) / f"{table}.parquet"
    with pq.ParquetFile(path) as file:  # a third of the work of `read_table`, for small files
        found = file.read(["text_id", *columns], use_threads=False)
    try:
        return block_of(found, columns, n_places)
    except ValueError as error:
        raise StudyError(f"{path} was changed: expected {error}.") from None


def block_of(table: pa.Table, columns: tuple[str, ...], n_places: int) -> Block:
    """Take some columns of a table; ValueError unless each text has `n_places` rows, in order."""
    n_texts, rest = divmod(len(table), n_places)
    ids = table["text_id"].to_numpy()[: n_texts * n_places].reshape(n_texts, n_places)
    if rest or (ids != ids[:, :1]).any():
        raise ValueError(f"{n_places} rows for each text, in order")
    flat = [table[name].to_numpy().reshape(ids.shape) for name in columns]
    values = np.stack(flat, -1) if flat else np.empty((*ids.shape, 0), np.float32)
    return Block(ids[:, 0], columns, values)


def units_of(folder: Path, number: int) -> Int[np.ndarray, "text"]:
    """Read the unit of each text of a shard; of earlier versions each text is one."""
    path = shard_folder(folder, number) / "sentences.parquet"
    column = "unit" if "unit" in pq.read_schema(path).names else "text_id"
    return pq.read_table(path, columns=[column])[column].to_numpy()


def whole_column(
    folder: Path, table: str, column: str, n_places: int
) -> Float[np.ndarray, "text place"]:
    """Read one column over all shards."""
    parts: Iterator[np.ndarray] = (
        read_block(folder, number, table, (column,), n_places).values[..., 0]
        for number in shards_with_texts(folder)
    )
    return np.concatenate(list(parts))
