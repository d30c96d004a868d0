"""Scores of single texts as arrays: some texts at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Num

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.sources.source import SHARD_TEXTS
from mha_viz.errors import StudyError

INDEX = ("text_id", "n_tokens", "layer", "head")  # the columns that are no metric


@dataclass(frozen=True)
class Block:
    """One table of some texts."""

    text_ids: Int[np.ndarray, "text"]  # of its texts
    columns: tuple[str, ...]  # names of the last axis: metrics, or baselines of metrics
    # NaN where not defined; a row for each head of all layers, or for each layer.
    values: Num[np.ndarray, "text row column"]

    def column(self, name: str) -> Float[np.ndarray, "text row"] | None:
        """Return one column, or None where there is none of that name."""
        if name not in self.columns:
            return None
        return self.values[..., self.columns.index(name)].astype(float)


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[str, ...]:
    """List the columns of numbers in a table of a study."""
    names = [name for name, *_ in connection.execute(f"DESCRIBE study.{table}").fetchall()]
    return tuple(name for name in names if name not in INDEX)


def blocks(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows_per_text: int
) -> Iterator[tuple[Block, Int[np.ndarray, "text"]]]:
    """Read some columns of a table which has `rows_per_text` rows for each text, in order.

    Beside each block stand the units of its texts.
    """
    names = ", ".join(f'"{name}"' for name in ("text_id", *columns))
    rows = _pieces(connection, f"SELECT {names} FROM study.{table}", SHARD_TEXTS * rows_per_text)
    units = _pieces(connection, "SELECT unit FROM study.sentences", SHARD_TEXTS)
    for piece, of_texts in zip(rows, units, strict=True):
        yield block_of(piece, columns, rows_per_text), of_texts["unit"].to_numpy()


def _pieces(connection: duckdb.DuckDBPyConnection, query: str, n_rows: int) -> Iterator[pa.Table]:
    """Run a query; yield so many rows at a time."""
    reader = connection.cursor().sql(query).to_arrow_reader(n_rows)
    pending: list[pa.RecordBatch] = []
    for batch in reader:
        check_cancelled()
        while sum(map(len, pending)) + len(batch) >= n_rows:
            n = n_rows - sum(map(len, pending))
            yield pa.Table.from_batches([*pending, batch.slice(0, n)])
            pending, batch = [], batch.slice(n)
        if len(batch):
            pending.append(batch)
    if pending:
        yield pa.Table.from_batches(pending)


def block_of(table: pa.Table, columns: Sequence[str], rows_per_text: int) -> Block:
    """Take some columns; StudyError unless each text has `rows_per_text` rows, in order."""
    n_texts, remainder = divmod(len(table), rows_per_text)
    ids = table["text_id"].to_numpy()[: n_texts * rows_per_text].reshape(n_texts, rows_per_text)
    if remainder or (ids != ids[:, :1]).any():
        raise StudyError(f"it was changed: expected {rows_per_text} rows for each text, in order")
    flat = [table[name].to_numpy().reshape(ids.shape) for name in columns]
    values = np.stack(flat, -1) if flat else np.empty((*ids.shape, 0), np.float32)
    return Block(ids[:, 0], tuple(columns), values)
