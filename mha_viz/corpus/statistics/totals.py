"""Sums over the texts of a study, added in their order: the same texts give the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int, Num

from mha_viz.corpus.statistics.intervals import Moments, UnitSums
from mha_viz.corpus.statistics.labels import labels_of_texts
from mha_viz.corpus.store.blocks import Block, blocks, columns_of
from mha_viz.corpus.store.schema import ROWS, SCORES
from mha_viz.corpus.store.study_file import StudyFile

MEANS, UNITS, LABELS = "means", "units", "label_counts"  # tables of sums that go on


@dataclass
class Means:
    """The columns of one table of rows by text, for each row of a text: a head, or a layer."""

    columns: tuple[str, ...]  # their names
    rows_per_text: int
    moments: Moments  # of row after row, each with all columns
    units: UnitSums

    @classmethod
    def empty(cls, columns: tuple[str, ...], rows_per_text: int) -> Means:
        """Begin with no texts."""
        n = rows_per_text * len(columns)
        return cls(columns, rows_per_text, Moments.empty(n), UnitSums(n))

    def add(self, block: Block, units: Int[np.ndarray, "text"]) -> None:
        """Count some texts, each with its unit."""
        values = block.values.reshape(len(block.text_ids), -1)
        self.moments.add(values)
        self.units.add(units, values)

    def table(self, name: str) -> pa.Table:
        """Make a row per row of a text and column: n, mean, squares."""
        row, column = np.divmod(np.arange(len(self.moments.n)), len(self.columns))
        names = pa.DictionaryArray.from_arrays(column.astype(np.int32), pa.array(self.columns))
        where = {"table": pa.array([name]).take(pa.array(np.zeros(len(row), int)))}
        where |= {"place": row.astype(np.int32), "column": names.cast(pa.string())}
        return pa.table(where | vars(self.moments))


@dataclass
class Totals:
    """The sums over the texts of a study so far."""

    n_layers: int
    n_heads: int
    means: dict[str, Means] = field(default_factory=dict)  # by table
    labels: dict[str, Int[np.ndarray, "layer head"]] = field(default_factory=dict)  # single texts

    @classmethod
    def of(cls, file: StudyFile, n_layers: int, n_heads: int) -> Totals:
        """Read those of texts whose rows are gone, and add those that are there."""
        totals = cls(n_layers, n_heads)
        if MEANS in file.tables:
            totals._read(file)
        if "texts" in file.tables:
            totals._add_rows(file)
        return totals

    def _add_rows(self, file: StudyFile) -> None:
        connection = file.cursor()
        names = [name for name in SCORES if name in file.tables]
        readers = []
        for name in names:
            columns = columns_of(connection, name)
            rows_per_text = self.n_layers * (1 if name == "chance" else self.n_heads)
            self.means.setdefault(name, Means.empty(columns, rows_per_text))
            with_lengths = ("n_tokens", *columns) if name == "texts" else columns
            readers.append(blocks(connection, name, with_lengths, rows_per_text))
        for readings in zip(*readers, strict=True):
            parts, units = zip(*readings, strict=True)
            self.add(dict(zip(names, parts, strict=True)), units[0])

    def add(self, scores: Mapping[str, Block], units: Int[np.ndarray, "text"]) -> None:
        """Add some texts; the first column of their scores is `n_tokens`."""
        texts = scores["texts"]
        lengths = texts.values[:, 0, 0]
        by_table = dict(scores) | {
            "texts": Block(texts.text_ids, texts.columns[1:], texts.values[..., 1:])
        }
        for name, block in by_table.items():
            self.means[name].add(block, units)
        for key, has_label in labels_of_texts(by_table, lengths, self.n_layers).items():
            self.labels[key] = self.labels.get(key, 0) + has_label.sum(0)

    def write(self, file: StudyFile) -> None:
        """Put the sums in the place of the rows; the table of units has a row for each of means.

        And, for each row, one for each unit that has texts.
        """
        with file.transaction():
            sums, counts = (
                np.concatenate([getattr(of.units, name) for of in self.means.values()])
                for name in ("sums", "counts")
            )
            filled_units = np.flatnonzero(counts.any(0))
            of_units: dict[str, Num[np.ndarray, "row"]] = {
                "unit": np.tile(filled_units.astype(np.int16), len(sums)),
                "sum": sums[:, filled_units].ravel(),
                "n": counts[:, filled_units].ravel().astype(np.int32),
            }
            n_all = self.n_layers * self.n_heads
            of_labels = {
                "label": np.repeat(list(self.labels), n_all),
                "place": np.tile(np.arange(n_all, dtype=np.int32), len(self.labels)),
                "n": np.concatenate([counts.ravel() for counts in self.labels.values()]),
            }
            means = [of.table(name) for name, of in self.means.items()]
            file.replace(MEANS, pa.concat_tables(means))
            file.replace(UNITS, pa.table(of_units))
            file.replace(LABELS, pa.table(of_labels))
            file.drop(ROWS)
        file.checkpoint()

    def _read(self, file: StudyFile) -> None:
        means, units, labels = (
            file.cursor().sql(f"FROM {name}").to_arrow_table() for name in (MEANS, UNITS, LABELS)
        )
        n_units = len(units) // len(means)
        filled_units = units["unit"][:n_units].to_numpy()
        sums, counts = (units[name].to_numpy().reshape(-1, n_units) for name in ("sum", "n"))
        runs, begin = pc.run_end_encode(means["table"].combine_chunks()), 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            part, rows = means.slice(begin, end - begin), slice(begin, end)
            rows_per_text = part["place"][-1].as_py() + 1
            columns = part["column"][: len(part) // rows_per_text].to_pylist()
            self.means[name] = Means.empty(tuple(columns), rows_per_text)
            of_texts = (part[column].to_numpy() for column in ("n", "mean", "squares"))
            self.means[name].moments.merge(Moments(*of_texts))
            self.means[name].units.merge(filled_units, sums[rows], counts[rows])
            begin = end
        for key in dict.fromkeys(labels["label"].to_pylist()):
            part = labels.filter(pc.field("label") == key)["n"].to_numpy()
            self.labels[key] = part.reshape(self.n_layers, self.n_heads).copy()
