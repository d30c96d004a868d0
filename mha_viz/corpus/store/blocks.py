"""Rows of single texts: many shards' in a part of a finished study, and a shard's as arrays."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int, Num

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.store import storage
from mha_viz.corpus.store.integrity import HASHES
from mha_viz.corpus.store.storage import (
    PARTS,
    SHARDS,
    SUMMARY,
    part_folder,
    row_files,
    shard_folder,
)
from mha_viz.errors import StudyError

# Edges lie beside them, sorted; all other tables of shards are sums, which the study has of all.
_MERGED = "texts untrained chance sentences arcs words parses untrained_parses".split()
PART_BYTES = 256 * 2**20  # of the rows in a part, about


class Part(NamedTuple):
    """A part as study.json lists it."""

    first: int  # number of its first shard
    n_shards: int  # in it
    files: dict[str, int]  # their sizes
    digest: str  # of its shard.json, in which the hashes of its files stand

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.first:05d}"

    @property
    def numbers(self) -> range:
        """The numbers of its shards."""
        return range(self.first, self.first + self.n_shards)


def parts_of(manifest: Mapping[str, Any]) -> list[Part] | None:
    """Return the parts that study.json lists; None: rows lie in shards, or none were kept."""
    return None if "parts" not in manifest else [Part(**part) for part in manifest["parts"]]


def merge_shards(folder: Path, n_shards: int) -> list[Part]:
    """Write the rows of all shards into parts of about `PART_BYTES` each; shards stay."""
    found: list[Part] = []
    begin, size = 0, 0
    for number in range(n_shards):
        place = shard_folder(folder, number)
        size += sum(path.stat().st_size for path in place.iterdir() if path.stem in _MERGED)
        if size >= PART_BYTES or number == n_shards - 1:
            found.append(merge(folder, range(begin, number + 1)))
            begin, size = number + 1, 0
    return found


def merge(folder: Path, numbers: range) -> Part:
    """Write the rows of some shards into one part."""
    shards = [shard_folder(folder, number) for number in numbers]
    found = {name: [shard / f"{name}.parquet" for shard in shards] for name in _MERGED}
    tables = {name: _rows(paths) for name, paths in found.items() if any(map(Path.exists, paths))}
    place = part_folder(folder, f"{numbers[0]:05d}")
    about = storage.write_part(folder, place, tables, {"n_shards": len(numbers)})
    digest = storage.read_summary(folder, place)[HASHES][SUMMARY]
    return Part(numbers[0], len(numbers), about["files"], digest)


def _rows(paths: Sequence[Path]) -> Iterator[pa.Table]:
    for path in filter(Path.exists, paths):
        check_cancelled()
        yield storage.read_table(path)


def mend(folder: Path, part: Part) -> None:
    """Write a part anew from its shards; StudyError where it is not what it was."""
    if merge(folder, part.numbers) != part:
        shutil.rmtree(part_folder(folder, part.name))
        raise StudyError(
            f"The part {PARTS}/{part.name} of {folder} cannot be made anew as it was: the model, "
            "the libraries or the processor add up otherwise. Restore it, or make the study anew "
            "in another folder."
        )


def remove_shards(folder: Path) -> None:
    """Delete the shards of a finished study: their rows are in parts, and their sums are added."""
    with storage.writing(folder):
        if (folder / SHARDS).exists():
            shutil.rmtree(folder / SHARDS)


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
