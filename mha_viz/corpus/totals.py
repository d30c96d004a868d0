"""What the texts of a study add up to: shard by shard, and written down where no rows are kept.

Everything is added in the order of shards and in one thread, so that the same shards give the same
bytes, whether all are added at once or some of them after a stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, UInt8

from mha_viz.core.asking import ask
from mha_viz.corpus.blocks import Block, number_columns, read_block, texts_of
from mha_viz.corpus.intervals import N_RESAMPLES, Resamples, text_weights
from mha_viz.corpus.moments import Moments
from mha_viz.corpus.storage import KEPT_SKIPPED, check_part, read_shard, shard_folder
from mha_viz.corpus.text_labels import labels_of_texts

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
    "parses": ("half", *_HEAD),
    "untrained_parses": ("half", *_HEAD),
    "coreference": ("half", *_HEAD),
    "untrained_coreference": ("half", *_HEAD),
}


@dataclass
class Means:
    """The columns of one table of rows by text, for each place: a head of all, or a layer.

    Args:
        columns: their names.
        n_places: in one text.
        moments, resamples: of place after place, each with all columns.
    """

    columns: tuple[str, ...]
    n_places: int
    moments: Moments
    resamples: Resamples

    @classmethod
    def none(cls, columns: tuple[str, ...], n_places: int) -> Means:
        """Of no texts yet."""
        n = n_places * len(columns)
        return cls(columns, n_places, Moments.none(n), Resamples(n))

    def add(self, block: Block, weights: UInt8[np.ndarray, "resample text"]) -> None:
        """Count the texts of one shard."""
        ask()
        values = block.values.reshape(len(block.text_ids), -1)
        self.moments.add(values)
        self.resamples.add(weights, values)

    def table(self) -> pa.Table:
        """A row for each place and column: place, column, n, mean, squares, and of every resample
        the sum and the number of its texts."""
        moments, resamples = self.moments, self.resamples
        numbers = {name: getattr(moments, name) for name in ("n", "mean", "squares")}
        drawn = {"sums": resamples.sums, "counts": resamples.counts}
        place, column = np.divmod(np.arange(len(moments.n)), len(self.columns))
        of_resamples = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(of.T.ravel()), N_RESAMPLES)
            for name, of in drawn.items()
        }
        names = pa.array(np.array(self.columns)[column])
        return pa.table({"place": place, "column": names, **numbers, **of_resamples})

    @classmethod
    def of_table(cls, table: pa.Table) -> Means:
        """What `table` gave."""
        place = table["place"].to_numpy()
        n_places = int(place.max()) + 1
        columns = tuple(table["column"].to_pylist()[: len(table) // n_places])
        moments = (table[name].to_numpy().copy() for name in ("n", "mean", "squares"))
        found = cls.none(columns, n_places)
        found.moments = Moments(*moments)
        for name in ("sums", "counts"):
            flat = table[name].combine_chunks().flatten().to_numpy()
            getattr(found.resamples, name)[:] = flat.reshape(-1, N_RESAMPLES).T
        return found


@dataclass
class Totals:
    """What the first shards of a study add up to.

    Args:
        n_layers: of the model.
        n_heads: in each layer.
        n_shards: how many there are in it.
        counts: of `COUNTS`.
        skipped: place and reason of the first texts that were skipped.
        means: table of rows by text -> its columns.
        labels: label -> of each head, on how many single texts it would have got it.
        tables: of `ADDED_UP`.
    """

    n_layers: int
    n_heads: int
    n_shards: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    skipped: list[list[str]] = field(default_factory=list)
    means: dict[str, Means] = field(default_factory=dict)
    labels: dict[str, Float[np.ndarray, "layer head"]] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def add_shards(self, folder: Path, end: int | None = None) -> None:
        """Add the shards that follow, up to one, or all that there are.

        Args:
            folder: of the study.
            end: the number of the first one that is left out.

        Raises:
            StudyError: one is damaged.
        """
        while self.n_shards != end and (about := read_shard(folder, self.n_shards)) is not None:
            for name in COUNTS:
                self.counts[name] += about[name]
            self.skipped = (self.skipped + about["skipped"])[:KEPT_SKIPPED]
            if about["files"]:  # else all of its texts were skipped
                check_part(folder, shard_folder(folder, self.n_shards))
                self._add_tables(folder, self.n_shards)
            self.n_shards += 1

    def _add_tables(self, folder: Path, number: int) -> None:
        weights = text_weights(texts_of(folder, number))
        blocks = dict(self._blocks(folder, number))
        for name, block in blocks.items():
            if name not in self.means:
                self.means[name] = Means.none(block.columns, block.values.shape[1])
            self.means[name].add(block, weights)
        for key, given in labels_of_texts(folder, number, blocks, self.n_layers).items():
            self.labels[key] = self.labels.get(key, np.zeros(given.shape[1:])) + given.sum(0)
        for name, keys in ADDED_UP.items():
            ask()
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
        """All of it as tables, and what is not in them; `read` takes both."""
        labels = {key: counts.ravel() for key, counts in self.labels.items()}
        tables = {f"{_MEANS}{name}": means.table() for name, means in self.means.items()}
        tables |= self.tables | ({"labels": pa.table(labels)} if labels else {})
        return tables, {"n_shards": self.n_shards, **self.counts, "skipped": self.skipped}

    @classmethod
    def read(cls, place: Path, about: Mapping[str, Any], n_layers: int, n_heads: int) -> Totals:
        """What was written.

        Args:
            place: the folder of its tables.
            about: what is not in them.
            n_layers: of the model.
            n_heads: in each layer.
        """
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
    """Two tables of sums in one, a row for each of their keys; rows of single texts become one."""
    sums = [name for name in part.column_names if name not in (*keys, "text_id")]
    both = part.select([*keys, *sums])
    if total is not None:
        both = pa.concat_tables([total, both], promote_options="permissive")
    found = both.group_by(list(keys), use_threads=False).aggregate([(n, "sum") for n in sums])
    found = found.select([*keys, *(f"{name}_sum" for name in sums)])
    return found.rename_columns([*keys, *sums]).replace_schema_metadata()
