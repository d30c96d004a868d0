"""The file of a study while it is written: each shard is one transaction."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from mha_viz.corpus.store.connection import attach, connect, quoted, writing
from mha_viz.corpus.store.lock import LOCK
from mha_viz.corpus.store.names import Names
from mha_viz.corpus.store.schema import (
    SCORES,
    SUMS,
    TABLES,
    check_schema,
    column_type,
    create_statement,
)
from mha_viz.errors import StudyError
from mha_viz.text.cleaning import visible

FILE, UNFINISHED = "study.duckdb", "study.duckdb.part"  # the name once it is complete, and before
OLDER_MANIFEST = "study.json"  # of a study that lies in Parquet files
FORMAT = 4  # of the file; before, a study was a folder of Parquet files
COUNTS = ("n_texts", "n_tokens", "n_padded", "n_skipped", "n_truncated", "n_left_out")
SHARDS_AT_ONCE = 16  # after which sums are added up: 4,096 texts
MAX_SKIPPED_NAMED = 100  # texts that were skipped and are named; all of them are counted
_IDENTITY = {"model": "another model", "source": "another source", "settings": "other settings"}
_BLOCK_BYTES = 2**16  # of the file: of the usual 2**18 a small study takes twice the space
_HEADER_BYTES = 3 * 4096  # of a file that holds nothing yet
_MEMORY_MB = 64  # as fast as more; what a step needs beyond it lies on the disk meanwhile
_MAX_LOG = "128MB"  # beside the file: whoever opens it has the rows in it in memory
_REPLAY_MEMORY = "1GB"  # the most; such rows take what they need
_MEMORY_MB_PER_HEAD = 2  # sums by relation grow with the heads, and cannot lie on the disk
_TREES = {"parses": "trees", "untrained_parses": "untrained_trees"}  # rows -> their sums


def claim_folder(folder: Path) -> None:
    """Make the folder of a study; StudyError where it holds something else than a study."""
    with writing(folder):
        if folder.exists() and not folder.is_dir():
            raise StudyError(f"{folder} is a file: give the name of a folder for the study.")
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name != LOCK and not name.startswith(FILE)]
    if OLDER_MANIFEST in foreign and not (folder / FILE).exists():
        raise StudyError(
            f"An earlier version of mha-viz began {folder}: open it, where it is finished, or give "
            "another folder."
        )
    if foreign and OLDER_MANIFEST not in foreign:
        raise StudyError(
            f"{folder} holds other things ({foreign[0]}) and no study: give a new folder, an empty "
            "one, or that of a study to go on with."
        )


class StudyFile:
    """An unfinished study, to which shards are added in their order.

    Attributes:
        manifest: what the study says of itself.
        n_shards: those that are there.
        counts: the sums of `COUNTS` over them.
        skipped: place and reason of the first texts that the model could not read.
    """

    def __init__(self, folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.folder, self._connection = folder, connection
        self.manifest = read_content(connection)
        self._tables = set(check_schema(connection, "study"))
        self._names = Names(connection)
        shards = self.read("SELECT count(*), " + ", ".join(f"sum({n})" for n in COUNTS), "shards")
        self.n_shards, *sums = (int(number or 0) for number in shards[0])
        self.counts = dict(zip(COUNTS, sums, strict=True))
        self.skipped = [list(row) for row in self.read("SELECT *", "skipped")]

    def read(self, select: str, table: str) -> list[tuple[Any, ...]]:
        """Read rows of a table that is there."""
        return self._connection.execute(f"{select} FROM {table}").fetchall()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own to the file, to read from."""
        cursor = self._connection.cursor()
        cursor.execute("USE study")
        return cursor

    @property
    def tables(self) -> frozenset[str]:
        """The tables that are there."""
        return frozenset(self._tables)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all that is written in the block, or nothing."""
        with writing(self.folder):
            self._connection.begin()
            try:
                yield
            except BaseException:
                with suppress(duckdb.Error):  # a full disk has ended the transaction already
                    self._connection.rollback()
                raise
            self._connection.commit()

    def add(
        self,
        tables: Mapping[str, pa.Table],
        counts: Mapping[str, int],
        skipped: Sequence[tuple[str, str]],
    ) -> None:
        """Add a shard: its rows, and its sums to those before."""
        keep_texts = self.manifest["settings"]["keep_texts"]
        with self.transaction():
            for name, table in tables.items():
                if name in _TREES:
                    self.insert(_TREES[name], table.drop_columns(["text_id"]))
                if name == "edges":
                    self.insert_edges(tables)
                elif keep_texts or name in SUMS or name in SCORES:
                    self.insert(name, table)
                elif name == "sentences":  # whose units are needed until scores are added up
                    self.insert(name, table.select(["text_id", "unit"]))
            reasons = [list(map(visible, row)) for row in skipped]
            reasons = reasons[: MAX_SKIPPED_NAMED - len(self.skipped)]
            columns = dict(zip(("place", "reason"), zip(*reasons, strict=True), strict=False))
            if columns:
                self.insert("skipped", pa.table({n: pa.array(of) for n, of in columns.items()}))
            row = {"shard": [self.n_shards]} | {name: [counts[name]] for name in COUNTS}
            self.insert("shards", pa.table(row))
            if (self.n_shards + 1) % SHARDS_AT_ONCE == 0:
                self.add_up()
        self.n_shards += 1
        self.skipped += reasons
        for name in COUNTS:
            self.counts[name] += counts[name]

    def insert_edges(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the edges of a shard, and the names that they are the first to have."""
        self.insert("edge_rows", self._names.number_edges(tables))
        self.insert("names", self._names.take_new())

    def insert(self, name: str, table: pa.Table) -> None:
        """Add rows to a table."""
        if name not in self._tables:
            self._connection.execute(create_statement(name, table.column_names))
            self._tables.add(name)
        self._connection.register("batch", table)
        self._connection.execute(f'INSERT INTO study."{name}" BY NAME FROM batch')
        self._connection.unregister("batch")

    def replace(self, name: str, table: pa.Table) -> None:
        """Write a table anew."""
        self.drop([name])
        self.insert(name, table)

    def drop(self, names: Sequence[str]) -> None:
        """Drop tables, where they are there."""
        for name in self._tables.intersection(names):
            self._connection.execute(f'DROP TABLE study."{name}"')
            self._tables.discard(name)

    def add_up(self) -> None:
        """Add up the rows of each table of sums, in the order in which they were added."""
        for name in self._tables & SUMS.keys():
            columns = [c for c, *_ in self._connection.execute(f"DESCRIBE {name}").fetchall()]
            keys = ", ".join(f'"{key}"' for key in SUMS[name])
            sums = ", ".join(
                f'sum("{column}")::{column_type(name, column)} AS "{column}"'
                for column in columns
                if column not in SUMS[name]
            )
            self._connection.execute(
                f"CREATE OR REPLACE TABLE study.{name} AS SELECT {keys}, {sums} FROM study.{name} "
                f"GROUP BY {keys} ORDER BY {keys}"
            )

    @property
    def mean_length(self) -> float:
        """The mean length of the texts so far, in bytes with the end of a line."""
        length = "SELECT avg(strlen(text)) + 1"
        return float(self.cursor().execute(f"{length} FROM sentences").fetchall()[0][0] or 1)

    def checkpoint(self) -> None:
        """Move what was committed into the file itself; until then it stands in a log beside it."""
        with writing(self.folder):
            self._connection.execute("CHECKPOINT study")

    def finish(self, about: Mapping[str, Any]) -> None:
        """Mark the study as finished, and give the file its name."""
        with self.transaction():
            self.drop(["shards", "skipped", "means", "units", "label_counts"])
            content = json.dumps({**self.manifest, **about, "finished": True})
            self.replace("manifest", pa.table({"content": [content]}))
        with writing(self.folder):
            _publish(self.folder, self._connection)


@contextmanager
def open_study(folder: Path, about: Mapping[str, Any]) -> Iterator[StudyFile]:
    """Open the unfinished study of a folder, or begin it.

    "model", "source" and "settings" of `about` must be the same to go on.
    """
    path = _unfinished(folder)
    with writing(folder):
        shutil.rmtree(path.with_name(f"{path.name}.tmp"), ignore_errors=True)
        n_heads = about["model"].get("n_layers", 0) * about["model"].get("n_heads", 0)
        memory_mb = max(_MEMORY_MB, n_heads * _MEMORY_MB_PER_HEAD)
        connection = connect(f"{memory_mb}MB", threads=1)
    try:
        with writing(folder):
            is_new = not path.exists()
            attach(connection, path, f"BLOCK_SIZE {_BLOCK_BYTES}" if is_new else "")
            connection.execute("USE study")
            connection.execute(f"SET temp_directory = {quoted(Path(f'{path}.tmp'))}")
            connection.execute(f"SET checkpoint_threshold = '{_MAX_LOG}'")
            if is_new or not connection.execute("SELECT 1 FROM duckdb_tables()").fetchall():
                _begin(connection, about)
            file = StudyFile(folder, connection)
        check_same(folder, file.manifest, about)
        yield file
    finally:
        with suppress(duckdb.Error):  # on a full disk the log stays beside the file
            connection.close()


def _unfinished(folder: Path) -> Path:
    """Return where an unfinished study is; one that was stopped within its first bytes is none."""
    path = folder / UNFINISHED
    with writing(folder):
        if path.exists() and path.stat().st_size < _HEADER_BYTES:
            path.unlink()
            path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    return path


def _begin(connection: duckdb.DuckDBPyConnection, about: Mapping[str, Any]) -> None:
    connection.begin()
    for name in ("manifest", "skipped", "names"):
        connection.execute(create_statement(name, list(TABLES[name])))
    connection.execute(create_statement("shards", COUNTS))
    content = json.dumps({"format": FORMAT, "finished": False, **about})
    connection.execute("INSERT INTO manifest VALUES (?)", [content])
    connection.commit()


def begun_threads(folder: Path) -> int | None:
    """Read in how many threads the sums of a study were begun; None where it is new.

    A study that was stopped after all was written, and before its file got its name, gets it. The
    caller holds the lock on the folder.
    """
    path = folder / FILE if (folder / FILE).exists() else _unfinished(folder)
    if not path.exists():
        return None
    with writing(folder), connect(_REPLAY_MEMORY, 1) as connection:
        attach(connection, path, "READ_ONLY" if path.name == FILE else "")
        if not connection.execute("SELECT 1 FROM duckdb_tables()").fetchall():
            return None  # it was stopped before it was begun
        manifest = read_content(connection)
        if manifest["finished"] and path.name == UNFINISHED:
            _publish(folder, connection)
    threads = manifest["settings"].get("threads")
    return threads if isinstance(threads, int) else None


def _publish(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """Give the file of a finished study its name."""
    connection.execute("CHECKPOINT study")
    connection.execute("USE memory")
    connection.execute("DETACH study")
    (folder / UNFINISHED).replace(folder / FILE)


def check_same(folder: Path, old: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Raise StudyError where a study is of another model or source, or has other settings."""
    new = json.loads(json.dumps(about))
    for part, other in _IDENTITY.items():
        for key in sorted({*old[part], *new[part]} - {"name"}):  # by which a model was loaded
            if old[part].get(key) != new[part].get(key):
                shown = [str(manifest[part].get(key))[:60] for manifest in (old, new)]
                raise StudyError(
                    f"{folder} holds a study of {other} ({key}: {shown[0]} there, {shown[1]} "
                    "here): give another folder, or what it was begun with to go on."
                )


def read_content(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Read what an attached study says of itself; StudyError where that is no study's."""
    rows = connection.execute("SELECT content FROM study.manifest LIMIT 2").fetchall()
    try:
        ((content,),) = rows
        manifest = dict(json.loads(content))
        version = manifest["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StudyError("what it says of itself was changed") from None
    if isinstance(version, int) and version > FORMAT:
        raise StudyError(
            f"a newer mha-viz wrote it, in format {version}, and this one reads {FORMAT}"
        )
    if not {*_IDENTITY, "finished"} <= manifest.keys():
        raise StudyError("it lacks what a study says of itself")
    return manifest


def size_of(folder: Path) -> int:
    """Return the bytes that an unfinished study takes."""
    paths = (folder / UNFINISHED, folder / f"{UNFINISHED}.wal")
    return sum(os.path.getsize(path) for path in paths if path.exists())
