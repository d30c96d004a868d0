"""A study's tables for SQL: DuckDB over its Parquet files, which it can only read."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pandas as pd

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.store.edges_index import quoted
from mha_viz.corpus.store.integrity import check_hashes
from mha_viz.corpus.store.storage import PARTS, SHARDS, check_part
from mha_viz.errors import ArgumentError, StudyError, translating
from mha_viz.text.cleaning import visible

_READ_ONLY = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


class Database:
    """A view for each table of a finished study; safe to share between threads.

    The files of a table are compared with their hashes once, before the first query that names it:
    a study of many texts would take long to open otherwise.
    """

    def __init__(self, folder: Path, hashes: Mapping[str, object]) -> None:
        self.folder, self._hashes, place = folder, hashes, folder.resolve()
        # Rows by text lie in parts or, where the study was made by an earlier version, in shards;
        # what is summed up over all of them in the folder itself.
        self._rows = PARTS if (place / PARTS).exists() else SHARDS
        of_texts = _names((place / self._rows).glob("*/*.parquet"))
        files = {name: place / self._rows / "*" / f"{name}.parquet" for name in of_texts}
        files |= {name: place / f"{name}.parquet" for name in _names(place.glob("*.parquet"))}
        self.tables = tuple(files)
        self._checked: set[str] = set()  # tables whose rows were counted
        self._verified: set[str] = set()  # tables whose files are as they were written
        self._connection = duckdb.connect(":memory:")
        with self.reading():
            for name, path in files.items():
                self._connection.execute(
                    f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet({quoted(path)})'
                )
            # From here on SQL sees these views alone: no other file, no network, no Python object.
            self._connection.execute(f"SET allowed_directories = [{quoted(place)}]")
            for setting in ("python_enable_replacements", "enable_external_access"):
                self._connection.execute(f"SET {setting} = false")
            self._connection.execute("SET lock_configuration = true")

    def query(self, query: str, values: Sequence[object] = ()) -> pd.DataFrame:
        """Run a query of ours; what a user gave is always among the values."""
        self.verify(self._named(query))
        return self._run(query, values)

    def _run(self, query: str, values: Sequence[object] = ()) -> pd.DataFrame:
        with self.reading():
            return self._connection.cursor().execute(query, list(values)).df()

    def relation(self, query: str) -> duckdb.DuckDBPyRelation:
        """Prepare a query of ours that reads no rows until they are needed."""
        self.verify(self._named(query))
        with self.reading():
            return self._connection.cursor().sql(query)

    def check_rows(self, most: Mapping[str, int]) -> None:
        """Check that tables, where the study has them, are no larger than they can be.

        A billion equal rows take a few kilobytes on the disk. How many there are stands at the end
        of each file; of tables in parts it is read once.
        """
        for name in most.keys() & set(self.tables) - self._checked:
            n_rows = int(self._run(f"SELECT count(*) AS n FROM {name}")["n"][0])
            if n_rows > most[name]:
                raise StudyError(
                    f"The study {self.folder} is damaged: its table {name} has {n_rows:,} rows, "
                    f"and can have {most[name]:,} at the most. Restore it, or make it anew."
                )
            self._checked.add(name)

    def verify(self, tables: Iterable[str]) -> None:
        """Compare the files of tables with their hashes, unless that was done before."""
        if not self._hashes:
            return
        for name in sorted(set(tables) & set(self.tables) - self._verified):
            file = f"{name}.parquet"
            if (self.folder / file).exists():  # it hides the tables of single texts
                check_hashes(self.folder, self.folder, self._hashes, [file])
            else:
                for path in (self.folder / self._rows).glob(f"*/{file}"):
                    check_cancelled()
                    check_part(self.folder, path.parent, [file])
            self._verified.add(name)

    def _named(self, query: str) -> list[str]:
        """List the tables that a query may read: all that occur in it as a word."""
        words = set(re.findall(r"\w+", query.lower()))
        return [name for name in self.tables if "parquet" in words or name.lower() in words]

    def query_freely(self, query: str) -> pd.DataFrame:
        """Run a user's own query: one SELECT over the views; else raise ArgumentError."""
        cursor = self._connection.cursor()
        try:
            statements = cursor.extract_statements(query)
        except duckdb.Error as error:
            raise ArgumentError(f"This is no SQL: {_first_line(error)}") from error
        if len(statements) != 1 or statements[0].type not in _READ_ONLY:
            raise ArgumentError(
                "A study can only be read: expected one SELECT, got "
                f"{', '.join(one.type.name for one in statements) or 'nothing'}."
            )
        self.verify(self._named(query))
        try:
            return cursor.execute(statements[0]).df()
        except duckdb.Error as error:
            known = ", ".join(self.tables)
            raise ArgumentError(
                f"The query failed: {_first_line(error)} (The study has the tables {known}.)"
            ) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise StudyError where the tables are not as a study writes them."""
        with translating(self._damaged):
            yield

    def _damaged(self, error: BaseException) -> StudyError:
        reason = "its tables are not as a study has them"
        if isinstance(error, duckdb.Error):
            reason = visible(_first_line(error), 300)
        return StudyError(
            f"The study {self.folder} cannot be read ({reason}): restore it, or make it anew."
        )


def _names(paths: Iterable[Path]) -> list[str]:
    """List the tables in these files; what has no name of a table, or is no file, is none."""
    return sorted({path.stem for path in paths if path.stem.isidentifier() and path.is_file()})


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
