"""A finished study's file for SQL, which can only read it."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pandas as pd

from mha_viz.corpus.store.connection import attach, connect
from mha_viz.corpus.store.names import EDGES_VIEW
from mha_viz.corpus.store.schema import INTERNAL, check_schema
from mha_viz.corpus.store.study_file import (
    FILE,
    UNFINISHED,
    read_content,
)
from mha_viz.errors import ArgumentError, MhaVizError, StudyError, translating
from mha_viz.text.cleaning import visible

_READ_ONLY = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_MEMORY = "1GB"  # that answers may take; what is given back as a table comes on top
_THREADS = 4
_TRIAL_SECONDS = 120  # a gigabyte takes some ten
_trusted: set[tuple[int, ...]] = set()  # files that this process wrote, or has read in a trial


class Database:
    """The tables of a finished study; safe to share between threads.

    Attributes:
        folder: where the file lies.
        manifest: what the study says of itself.
        tables: the tables that a reader of the study sees.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, path = folder, folder / FILE
        if not path.is_file():
            raise StudyError(_no_study(folder))
        if Path(f"{path}.wal").exists():
            raise self._damaged(StudyError("it was changed after it was finished"))
        with self.reading(of_file=True):
            try_file(path)
            self._connection = connect(_MEMORY, min(_THREADS, os.cpu_count() or 1))
            attach(self._connection, path.resolve(), "READ_ONLY")
            # From here on SQL sees this file alone: no other file, no network, no Python object.
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")
            tables = check_schema(self._connection, "study")
            self.manifest = read_content(self._connection)
            self._stored = set(tables)
            if "edge_rows" in tables:
                self.cursor().execute(EDGES_VIEW)
        edges = {"edges"} if "edge_rows" in tables else set()
        self.tables = tuple(sorted((self._stored - set(INTERNAL)) | edges))
        self._counted: set[str] = set()  # tables whose rows were counted

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own to the file; use it within `reading`."""
        cursor = self._connection.cursor()
        cursor.execute("SET search_path = 'memory.main,study.main'")
        return cursor

    def query(self, query: str, values: Sequence[object] = ()) -> pd.DataFrame:
        """Run a query of ours; what a user gave is always among the values."""
        with self.reading():
            return self.cursor().execute(query, list(values)).df()

    def relation(self, query: str) -> duckdb.DuckDBPyRelation:
        """Prepare a query of ours that reads no rows until they are needed."""
        with self.reading():
            return self.cursor().sql(query)

    def check_rows(self, most: Mapping[str, int]) -> None:
        """Check that tables, where the study has them, are no larger than they can be.

        A billion equal rows take a few kilobytes on the disk.
        """
        for name in most.keys() & self._stored - self._counted:
            n_rows = int(self.query(f"SELECT count(*) AS n FROM {name}")["n"][0])
            if n_rows > most[name]:
                raise self._damaged(
                    StudyError(
                        f"its table {name} has {n_rows:,} rows, and can have {most[name]:,} at the "
                        "most"
                    )
                )
            self._counted.add(name)
        if "names" in most:
            twice = "SELECT count(*) - count(DISTINCT (kind, number)) AS n FROM names"
            if "names" in self._stored and self.query(twice)["n"][0]:
                raise self._damaged(StudyError("its table names has a number twice"))

    def verify(self, tables: Iterable[str] | None = None) -> dict[str, int]:
        """Read every value of some tables, or of all, and return their numbers of rows.

        The database compares each block that it reads with its checksum. Raises StudyError: a
        block was changed.
        """
        names = self._stored if tables is None else self._stored & {*tables}
        if tables is not None and "edges" in tables:
            names |= self._stored & {"edge_rows", "names"}
        counts = {}
        for name in sorted(names):
            self.query(f'SELECT bit_xor(hash(COLUMNS(*))) FROM "{name}"')
            counts[name] = int(self.query(f'SELECT count(*) AS n FROM "{name}"')["n"][0])
        return counts

    def query_freely(self, query: str) -> pd.DataFrame:
        """Run a user's own query: one SELECT over the tables; else raise ArgumentError."""
        cursor = self.cursor()
        try:
            statements = cursor.extract_statements(query)
        except duckdb.Error as error:
            raise ArgumentError(f"This is no SQL: {_first_line(error)}") from error
        if len(statements) != 1 or statements[0].type not in _READ_ONLY:
            raise ArgumentError(
                "A study can only be read: expected one SELECT, got "
                f"{', '.join(statement.type.name for statement in statements) or 'nothing'}."
            )
        try:
            return cursor.execute(statements[0]).df()
        except duckdb.Error as error:
            if _is_damage(error):
                raise self._damaged(error) from error
            names = ", ".join(self.tables)
            raise ArgumentError(
                f"The query failed: {_first_line(error)} (The study has the tables {names}.)"
            ) from error

    @contextmanager
    def reading(self, *, of_file: bool = False) -> Iterator[None]:
        """Raise StudyError where the tables, or the file, are not as a study writes them."""
        if of_file:
            try:
                yield
            except (StudyError, duckdb.Error) as error:
                raise self._damaged(error) from error
            return
        with translating(self._damaged):
            yield

    def _damaged(self, error: BaseException) -> StudyError:
        reason = "its tables are not as a study has them"
        if isinstance(error, duckdb.Error | MhaVizError):
            reason = visible(_first_line(error), 300).rstrip(".")
        return StudyError(
            f"The study {self.folder} is damaged: {FILE} cannot be read ({reason}). Restore it, or "
            "make it anew."
        )


def trust(path: Path) -> None:
    """Note that a file needs no trial: this process wrote it, or it comes with the package."""
    _trusted.add(_identity(path))


def _identity(path: Path) -> tuple[int, ...]:
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def try_file(path: Path) -> None:
    """Read a file in a process of its own first; StudyError where that cannot.

    What a stranger has forged may end the process that reads it.
    """
    if _identity(path) in _trusted:
        return
    command = [sys.executable, "-I", str(Path(__file__).with_name("trial.py")), str(path.resolve())]
    try:
        trial = subprocess.run(
            command, capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise StudyError(f"reading it takes more than {_TRIAL_SECONDS} seconds") from None
    if trial.returncode:
        raise StudyError(f"the process that tried to read it ended with {trial.returncode}")
    if reason := trial.stdout.strip():
        raise StudyError(reason)
    trust(path)


def _no_study(folder: Path) -> str:
    if (folder / UNFINISHED).exists():
        return (
            f"The study {folder} is not finished: give the command that began it again, and it "
            "goes on."
        )
    return f"{folder} is no study: expected a folder with {FILE} in it."


def _is_damage(error: duckdb.Error) -> bool:
    damage = duckdb.SerializationException, duckdb.InternalException, duckdb.FatalException
    return isinstance(error, damage) or "checksum" in str(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
