"""The rows of a shard as arrays: a number for each text, head and metric."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int, Num

from mha_viz.corpus.store.storage import row_files
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
    files = row_files(folder, table)
    return number_columns(pq.read_schema(files[0]).names) if files else ()


def number_columns(names: Iterable[str]) -> tuple[str, ...]:
    """List the columns of numbers among those of a table."""
    return tuple(name for name in names if name not in INDEX)


def blocks(
    folder: Path, table: str, columns: tuple[str, ...], n_places: int
) -> Iterator[tuple[Block, Int[np.ndarray, "text"]]]:
    """Read some columns of a table, shard by shard, which has `n_places` rows for each text.

    Beside each block stand the units of its texts; in earlier versions each text is one.
    """
    for path in row_files(folder, table):
        of_texts = path.with_name("sentences.parquet")
        with pq.ParquetFile(path) as file, pq.ParquetFile(of_texts) as sentences:
            unit = "unit" if "unit" in sentences.schema_arrow.names else "text_id"
            for group in range(file.num_row_groups):  # one of each shard, in both files
                rows = file.read_row_group(group, ["text_id", *columns], use_threads=False)
                units = sentences.read_row_group(group, [unit], use_threads=False)
                try:
                    yield block_of(rows, columns, n_places), units[unit].to_numpy()
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


def whole_column(
    folder: Path, table: str, column: str, n_places: int
) -> Float[np.ndarray, "text place"]:
    """Read one column over all texts."""
    parts = (block.values[..., 0] for block, _ in blocks(folder, table, (column,), n_places))
    return np.concatenate(list(parts))
