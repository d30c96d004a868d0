"""Totals over the texts of a study: shard by shard, and written down where no rows are kept.

Everything is added in the order of shards and in one thread, so that the same shards give the same
bytes, whether all are added at once or some of them after a stop.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.statistics.intervals import N_UNITS, Moments, UnitSums
from mha_viz.corpus.statistics.labels import labels_of_texts
from mha_viz.corpus.store.blocks import Block, number_columns, read_block, units_of
from mha_viz.corpus.store.storage import (
    KEPT_SKIPPED,
    check_part,
    n_in_totals,
    read_part,
    read_shard,
    shard_folder,
    shard_numbers,
    totals_folder,
    write_part,
    writing,
)

_MEANS = "means_"  # before the name of a table that rows by text were added up to
COUNTS = ("n_texts", "n_tokens", "n_padded", "n_skipped", "n_truncated", "n_left_out")
# Tables whose rows add up, and what says that two rows are of the same.
_RELATION = ("half", "relation", "direction")
_HEAD = ("layer", "head")
ADDED_UP = {
    "profile": (*_HEAD, "axis", "at"),
    "pairs": ("measure", "i", "j"),
    "histogram": ("metric", *_HEAD, "bin"),
    "parts_of_speech": (*_HEAD, "from_upos", "to_upos"),
    "relations": (*_RELATION, *_HEAD),
    "untrained_relations": (*_RELATION, *_HEAD),
    "relation_offsets": (*_RELATION, "offset"),
    "parses": ("half", *_HEAD, "unit"),
    "untrained_parses": ("half", *_HEAD, "unit"),
    "coreference": ("half", *_HEAD, "unit"),
    "untrained_coreference": ("half", *_HEAD, "unit"),
}


@dataclass
class Means:
    """The columns of one table of rows by text, for each place: a head of all, or a layer."""

    columns: tuple[str, ...]  # their names
    n_places: int  # in one text
    moments: Moments  # of place after place, each with all columns
    units: UnitSums

    @classmethod
    def empty(cls, columns: tuple[str, ...], n_places: int) -> Means:
        """Begin with no texts."""
        n = n_places * len(columns)
        return cls(columns, n_places, Moments.empty(n), UnitSums(n))

    def add(self, block: Block, units: Int[np.ndarray, "text"]) -> None:
        """Count the texts of one shard, each with its unit."""
        check_cancelled()
        values = block.values.reshape(len(block.text_ids), -1)
        self.moments.add(values)
        self.units.add(units, values)

    def table(self) -> pa.Table:
        """Make a row per place and column: n, mean, squares, each unit's sum and count."""
        moments, units = self.moments, self.units
        numbers = {name: getattr(moments, name) for name in ("n", "mean", "squares")}
        place, column = np.divmod(np.arange(len(moments.n)), len(self.columns))
        of_units = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(of.T.ravel()), N_UNITS)
            for name, of in vars(units).items()
        }
        names = pa.array(np.array(self.columns)[column])
        return pa.table({"place": place, "column": names, **numbers, **of_units})

    @classmethod
    def of_table(cls, table: pa.Table) -> Means:
        """Read what `table` gave."""
        place = table["place"].to_numpy()
        n_places = int(place.max()) + 1
        columns = tuple(table["column"].to_pylist()[: len(table) // n_places])
        moments = (table[name].to_numpy().copy() for name in ("n", "mean", "squares"))
        found = cls.empty(columns, n_places)
        found.moments = Moments(*moments)
        for name in ("sums", "counts"):
            flat = table[name].combine_chunks().flatten().to_numpy()
            getattr(found.units, name)[:] = flat.reshape(-1, N_UNITS).T
        return found


@dataclass
class Totals:
    """The sums over the first shards of a study."""

    n_layers: int
    n_heads: int
    n_shards: int = 0  # that are added up
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))  # of `COUNTS`
    skipped: list[list[str]] = field(default_factory=list)  # place and reason of the first ones
    means: dict[str, Means] = field(default_factory=dict)  # by table
    labels: dict[str, Float[np.ndarray, "layer head"]] = field(default_factory=dict)  # single texts
    tables: dict[str, pa.Table] = field(default_factory=dict)  # of `ADDED_UP`

    def add_shards(self, folder: Path, end: int | None = None) -> None:
        """Add the shards that follow, up to `end` or all; StudyError if one is damaged."""
        while self.n_shards != end and (about := read_shard(folder, self.n_shards)) is not None:
            for name in COUNTS:
                self.counts[name] += about[name]
            self.skipped = (self.skipped + about["skipped"])[:KEPT_SKIPPED]
            if about["files"]:  # else all of its texts were skipped
                check_part(folder, shard_folder(folder, self.n_shards))
                self._add_tables(folder, self.n_shards)
            self.n_shards += 1

    def _add_tables(self, folder: Path, number: int) -> None:
        units = units_of(folder, number)
        blocks = dict(self._blocks(folder, number))
        for name, block in blocks.items():
            if name not in self.means:
                self.means[name] = Means.empty(block.columns, block.values.shape[1])
            self.means[name].add(block, units)
        for key, given in labels_of_texts(folder, number, blocks, self.n_layers).items():
            self.labels[key] = self.labels.get(key, np.zeros(given.shape[1:])) + given.sum(0)
        for name, keys in ADDED_UP.items():
            check_cancelled()
            path = shard_folder(folder, number) / f"{name}.parquet"
            if path.exists():
                self.tables[name] = _added(self.tables.get(name), pq.read_table(path), keys)

    def _blocks(self, folder: Path, number: int) -> Iterator[tuple[str, Block]]:
        n_all = self.n_layers * self.n_heads
        for name, n_places in (("texts", n_all), ("untrained", n_all), ("chance", self.n_layers)):
            if columns := number_columns(shard_folder(folder, number) / f"{name}.parquet"):
                yield name, read_block(folder, number, name, columns, n_places)

    # -- written down, and read again --------------------------------------------------------------

    def written(self) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """Return all tables, and what is not in them; `read` takes both."""
        labels = {key: counts.ravel() for key, counts in self.labels.items()}
        tables = {f"{_MEANS}{name}": means.table() for name, means in self.means.items()}
        tables |= self.tables | ({"labels": pa.table(labels)} if labels else {})
        return tables, {"n_shards": self.n_shards, **self.counts, "skipped": self.skipped}

    @classmethod
    def read(cls, place: Path, about: Mapping[str, Any], n_layers: int, n_heads: int) -> Totals:
        """Read the tables in a folder, and what is not in them."""
        tables = {path.stem: pq.read_table(path) for path in sorted(place.glob("*.parquet"))}
        counts = {name: about[name] for name in COUNTS}
        found = cls(n_layers, n_heads, about["n_shards"], counts, about["skipped"])
        for name, table in tables.items():
            if name.startswith(_MEANS):
                found.means[name.removeprefix(_MEANS)] = Means.of_table(table)
            elif name == "labels":
                flat = {key: table[key].to_numpy() for key in table.column_names}
                found.labels = {key: of.reshape(n_layers, n_heads) for key, of in flat.items()}
            else:
                found.tables[name] = table
        return found


def _added(total: pa.Table | None, part: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Add two tables of sums, a row for each of their keys; rows of single texts become one."""
    sums = [name for name in part.column_names if name not in (*keys, "text_id")]
    both = part.select([*keys, *sums])
    if total is not None:
        both = pa.concat_tables([total, both], promote_options="permissive")
    found = both.group_by(list(keys), use_threads=False).aggregate([(n, "sum") for n in sums])
    found = found.select([*keys, *(f"{name}_sum" for name in sums)])
    return found.rename_columns([*keys, *sums]).replace_schema_metadata()


SHARDS_AT_ONCE = 16  # 4,096 texts: the totals of a large model take seconds to write


def totals_so_far(folder: Path, n_layers: int, n_heads: int) -> Totals:
    """Read what earlier runs have added up: nothing where rows are kept, or at the beginning."""
    place = totals_folder(folder, n_in_totals(folder))
    about = read_part(folder, place)
    if about is None:
        return Totals(n_layers, n_heads)
    check_part(folder, place)
    return Totals.read(place, about, n_layers, n_heads)


def fold(folder: Path, totals: Totals, end: int | None = None) -> None:
    """Add shards to the totals, write these, and delete the shards.

    The totals get their name before any shard is deleted: if the process stops in between, nothing
    is lost and the next call deletes the rest. The folder of shards is listed once, so that the
    work does not grow with the shards that are gone. `end` is the first shard that stays.
    """
    before = totals.n_shards
    totals.add_shards(folder, end)
    place = totals_folder(folder, totals.n_shards)
    if totals.n_shards > before:
        tables, about = totals.written()
        write_part(folder, place, tables, about)
    with writing(folder):
        for older in place.parent.glob("*"):
            if older != place:
                shutil.rmtree(older)
        for number in shard_numbers(folder):
            if number < totals.n_shards:
                shutil.rmtree(shard_folder(folder, number))
