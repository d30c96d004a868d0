"""Sums over the texts of a study: of each shard beside its rows, and of the shards so far.

Whoever measures a shard makes its sums (`write_shard`). They are added in the order of shards and
in one thread, so that the same shards give the same bytes, whether all are added at once or some of
them after a stop.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.statistics.intervals import Moments, UnitSums
from mha_viz.corpus.statistics.labels import labels_of_texts
from mha_viz.corpus.store import storage
from mha_viz.corpus.store.blocks import Block, block_of, number_columns

if TYPE_CHECKING:
    from mha_viz.corpus.measure.shard import Shard

BY_TEXT = ("texts", "untrained", "chance")  # tables of scores, whose rows are added up
# Tables of single texts, which no study needs that keeps their sums alone.
ROWS = (*BY_TEXT, "sentences", "arcs", "words", "edges")
MEANS, UNITS, LABELS = "means", "units", "labels"  # tables of their sums
SUMS = (MEANS, UNITS, LABELS)
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
        values = block.values.reshape(len(block.text_ids), -1)
        self.moments.add(values)
        self.units.add(units, values)

    def table(self, name: str) -> pa.Table:
        """Make a row per place and column: n, mean, squares."""
        place, column = np.divmod(np.arange(len(self.moments.n)), len(self.columns))
        names = pa.DictionaryArray.from_arrays(column.astype(np.int32), pa.array(self.columns))
        where = {"table": pa.array([name]).take(pa.array(np.zeros(len(place), int)))}
        where |= {"place": place.astype(np.int32), "column": names.cast(pa.string())}
        return pa.table(where | vars(self.moments))


@dataclass
class Totals:
    """The sums over the first shards of a study, or over a single one."""

    n_layers: int
    n_heads: int
    n_shards: int = 0  # that are added up
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))  # of `COUNTS`
    skipped: list[list[str]] = field(default_factory=list)  # place and reason of the first ones
    means: dict[str, Means] = field(default_factory=dict)  # by table
    labels: dict[str, Int[np.ndarray, "layer head"]] = field(default_factory=dict)  # single texts
    _parts: dict[str, list[pa.Table]] = field(default_factory=dict)  # see `tables`

    def add_shards(self, folder: Path, end: int | None = None) -> None:
        """Add the shards that follow, up to `end` or all; StudyError if one is damaged."""
        while self.n_shards != end:
            check_cancelled()
            if (about := storage.read_shard(folder, self.n_shards)) is None:
                return
            place = storage.shard_folder(folder, self.n_shards)
            if about["files"]:  # else all of its texts were skipped
                storage.check_part(folder, place)
            self.add_written(place, {**about, "n_shards": 1})

    def add_texts(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the rows of a shard: of its tables `BY_TEXT`, and of `ADDED_UP`."""
        n_all = self.n_layers * self.n_heads
        blocks: dict[str, Block] = {}
        for name in [one for one in BY_TEXT if one in tables]:
            columns = number_columns(tables[name].column_names)
            n_places = self.n_layers if name == "chance" else n_all
            blocks[name] = block_of(tables[name], columns, n_places)
            if name not in self.means:
                self.means[name] = Means.empty(columns, n_places)
            self.means[name].add(blocks[name], tables["sentences"]["unit"].to_numpy())
        lengths = tables["texts"]["n_tokens"].to_numpy()[::n_all]
        for key, held in labels_of_texts(blocks, lengths, self.n_layers).items():
            self.labels[key] = self.labels.get(key, 0) + held.sum(0)
        self._add_up(tables)

    def _add_up(self, tables: Mapping[str, pa.Table]) -> None:
        """Keep tables of `ADDED_UP`, and add them up once they are many: group by group.

        However many wait, a group's rows are added one after the other, to the same bits.
        """
        for name in ADDED_UP.keys() & tables.keys():
            parts = self._parts.setdefault(name, [])
            parts.append(tables[name])
            if sum(map(len, parts[1:])) > max(len(parts[0]), _ROWS_AT_ONCE):
                parts[:] = [_added_up(parts, ADDED_UP[name])]

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The tables of `ADDED_UP`, a row for each of their keys and in the order of these."""
        found = {}
        for name, parts in self._parts.items():
            order = [(key, "ascending") for key in ADDED_UP[name]]
            found[name] = _added_up(parts, ADDED_UP[name]).sort_by(order).combine_chunks()
            self._parts[name] = [found[name]]
        return found

    def written(self) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """Return all tables, and what is not in them; `add_written` takes both.

        The table of units has a row for each row of the means and each unit that has texts.
        """
        about = {"n_shards": self.n_shards, **self.counts, "skipped": self.skipped}
        return self.sums() | self.tables, about

    def sums(self) -> dict[str, pa.Table]:
        """Make the tables of `SUMS`, where any text was added."""
        if not self.means:
            return {}
        sums, counts = (
            np.concatenate([getattr(of.units, name) for of in self.means.values()])
            for name in ("sums", "counts")
        )
        there = np.flatnonzero(counts.any(0))
        of_units = {"unit": np.tile(there.astype(np.int16), len(sums))}
        of_units |= {"sum": sums[:, there].ravel(), "n": counts[:, there].ravel().astype(np.int32)}
        labels = {key: counts.ravel() for key, counts in self.labels.items()}
        return {
            MEANS: pa.concat_tables([of.table(name) for name, of in self.means.items()]),
            UNITS: pa.table(of_units),
            LABELS: pa.table(labels),
        }

    def add_written(self, place: Path, about: Mapping[str, Any]) -> None:
        """Add sums that were written into a folder, and what was not in their tables."""
        self.n_shards += about["n_shards"]
        for name in COUNTS:
            self.counts[name] += about[name]
        self.skipped = (self.skipped + about["skipped"])[: storage.KEPT_SKIPPED]
        names = [name for name in (*SUMS, *ADDED_UP) if f"{name}.parquet" in about["files"]]
        tables = {name: storage.read_table(place / f"{name}.parquet") for name in names}
        if MEANS in tables:
            self._add_means(tables[MEANS], tables[UNITS])
            for key, counts in zip(tables[LABELS].column_names, tables[LABELS], strict=True):
                of_heads = counts.to_numpy().reshape(self.n_layers, self.n_heads)
                self.labels[key] = self.labels.get(key, 0) + of_heads
        self._add_up(tables)

    def _add_means(self, means: pa.Table, units: pa.Table) -> None:
        n_units = len(units) // len(means)
        there = units["unit"][:n_units].to_numpy()
        sums, counts = (units[name].to_numpy().reshape(-1, n_units) for name in ("sum", "n"))
        runs, begin = pc.run_end_encode(means["table"].combine_chunks()), 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            own, rows = means.slice(begin, end - begin), slice(begin, end)
            if name not in self.means:
                n_places = own["place"][-1].as_py() + 1
                columns = own["column"][: len(own) // n_places].to_pylist()
                self.means[name] = Means.empty(tuple(columns), n_places)
            of_texts = (own[column].to_numpy() for column in ("n", "mean", "squares"))
            self.means[name].moments.merge(Moments(*of_texts))
            self.means[name].units.merge(there, sums[rows], counts[rows])
            begin = end


_ROWS_AT_ONCE = 2**17  # of tables that wait to be added up


def _added_up(parts: list[pa.Table], keys: tuple[str, ...]) -> pa.Table:
    """Add tables of sums, a row for each of their keys; rows of single texts become one."""
    sums = [name for name in parts[-1].column_names if name not in (*keys, "text_id")]
    whole = [part.select([*keys, *sums]).replace_schema_metadata() for part in parts]
    rows = pa.concat_tables(whole, promote_options="permissive")
    found = rows.group_by(list(keys), use_threads=False).aggregate([(n, "sum") for n in sums])
    return found.select([*keys, *(f"{name}_sum" for name in sums)]).rename_columns([*keys, *sums])


def write_shard(
    folder: Path, number: int, shard: Shard, *, keep_texts: bool = True
) -> dict[str, Any]:
    """Write a shard: the sums of its texts and, to keep these, their rows.

    Returns its summary, as `read_shard` does.
    """
    tables, sums = shard.tables, dict[str, pa.Table]()
    if "texts" in tables:
        n_layers, n_heads = (pc.max(tables["texts"][of]).as_py() + 1 for of in ("layer", "head"))
        totals = Totals(n_layers, n_heads)
        totals.add_texts(tables)
        sums = totals.sums()
    about = shard.counts | {"skipped": [list(one) for one in shard.skipped[: storage.KEPT_SKIPPED]]}
    kept = {name: of for name, of in tables.items() if keep_texts or name not in ROWS}
    return storage.write_part(folder, storage.shard_folder(folder, number), kept | sums, about)


SHARDS_AT_ONCE = 16  # 4,096 texts: the totals of a large model take seconds to write


def totals_so_far(folder: Path, n_layers: int, n_heads: int) -> Totals:
    """Read what earlier runs have added up: nothing where rows are kept, or at the beginning."""
    found = Totals(n_layers, n_heads)
    place = storage.totals_folder(folder, storage.n_in_totals(folder))
    if (about := storage.read_part(folder, place)) is not None:
        storage.check_part(folder, place)
        found.add_written(place, about)
    return found


def fold(folder: Path, totals: Totals, end: int | None = None) -> None:
    """Add shards to the totals, write these, and delete the shards.

    The totals get their name before any shard is deleted: if the process stops in between, nothing
    is lost and the next call deletes the rest. The folder of shards is listed once, so that the
    work does not grow with the shards that are gone. `end` is the first shard that stays.
    """
    before = totals.n_shards
    totals.add_shards(folder, end)
    place = storage.totals_folder(folder, totals.n_shards)
    if totals.n_shards > before:
        tables, about = totals.written()
        storage.write_part(folder, place, tables, about)
    with storage.writing(folder):
        for older in place.parent.glob("*"):
            if older != place:
                shutil.rmtree(older)
        for shard in (folder / storage.SHARDS).glob("*"):
            number = int(shard.name) if shard.name.isdecimal() else totals.n_shards
            if number < totals.n_shards:
                shutil.rmtree(shard)
