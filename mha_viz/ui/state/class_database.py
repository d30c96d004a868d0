"""The SQLite file of classes: shared by servers, and waited for while another one writes."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mha_viz.errors import ClassError
from mha_viz.ui.jobs.turns import turns

log = logging.getLogger("mha_viz")
T = TypeVar("T")

PATIENCE = 1.0  # seconds that a page waits for another server to write
_START_PATIENCE = 10.0  # seconds that the start of a server waits for it
_PAUSE = 3.0  # seconds after a wait in vain during which no page waits as long
_BRIEFLY = 0.05  # seconds that it waits instead
# A browser that joins anew gets a row number above all others: the lowest joined first.
_TABLES = """
create table if not exists classes (
    code text primary key, leader text, used integer,
    stop integer default 0, moves integer default 0
);
create table if not exists joined (browser text primary key, code text);
create table if not exists votes (
    code text, question text, browser text, option integer, seen integer,
    primary key (code, question, browser)
);
create table if not exists uncovered (
    code text, question text, primary key (code, question)
);
create table if not exists first (one integer primary key check (one = 1), code text, leader text);
"""
_DAMAGED = "database disk image is malformed"  # as SQLite says it
_TABLE_NAMES = ("classes", "joined", "votes", "uncovered", "first")


class ClassDatabase:
    """Tables of classes in a file or in memory; safe to share between threads and processes.

    Every method raises ClassError where the file cannot be read or written, or where another
    process holds it for `PATIENCE`.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path).absolute()
        self._lock = threading.RLock()  # of classes in memory, which no other process can hold
        self._failed_at, self._problem = float("-inf"), ""
        with _readable():
            database = _connected(path or ":memory:", _START_PATIENCE)
            database.executescript(_TABLES)
            (state,) = database.execute("pragma quick_check(1)").fetchone()
        if self._path is None:
            self._in_memory = database
        else:
            database.close()
        if state != "ok":
            raise sqlite3.DatabaseError(_DAMAGED)

    @contextmanager
    def _connection(self, timeout: float) -> Iterator[sqlite3.Connection]:
        """Yield a connection: to a file each call has its own, so that none waits for another."""
        if self._path is None:
            with self._lock:
                yield self._in_memory
        else:
            # `mode=rw`: a file that was deleted is a failure, and no new one without tables.
            file = f"{self._path.as_uri()}?mode=rw"
            with _readable(), closing(_connected(file, timeout)) as database:
                yield database

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work in the database; where another process holds it, wait for `PATIENCE`."""
        try:
            answer = self._attempt(work)
        except sqlite3.Error as error:
            self._failed_at = time.monotonic()
            if self._problem != str(error):
                log.warning("the file of classes cannot be used: %s", error)
            self._problem = str(error)
            raise ClassError(
                f"The class cannot be reached just now: {error}. Pages that need no class work, "
                "and those of the class try again by themselves."
            ) from error
        self._failed_at, self._problem = float("-inf"), ""
        return answer

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._connection(0.0) as database:
                return work(database)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            failure: sqlite3.Error = error
        is_pause = time.monotonic() - self._failed_at < _PAUSE
        with turns.release_slot():  # other pages are run meanwhile
            try:
                with self._connection(_BRIEFLY if is_pause else PATIENCE) as database:
                    return work(database)
            except sqlite3.Error as error:  # raised below, where this run has its turn again
                failure = error
        raise failure

    def check(self) -> None:
        """Return if the classes can be read and written now, also by other servers."""

        def look(database: sqlite3.Connection) -> None:
            database.execute("begin immediate")
            try:
                for table in _TABLE_NAMES:
                    database.execute(f"select count(*) from {table}").fetchone()
            finally:
                database.rollback()

        self._run(look)

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return the rows that a statement selects."""
        return self._run(lambda database: database.execute(statement, values).fetchall())

    def write(self, *statements: tuple[Any, ...]) -> int:
        """Run statements and their values as one change; return how many rows the last changed."""

        def change(database: sqlite3.Connection) -> int:
            with database:
                counts = [
                    database.execute(statement, values).rowcount
                    for statement, *values in statements
                ]
            return counts[-1]

        return self._run(change)


def _connected(path: str | Path, timeout: float) -> sqlite3.Connection:
    database = sqlite3.connect(
        path, timeout=timeout, isolation_level="IMMEDIATE", check_same_thread=False, uri=True
    )
    # A vote that waits for the disk takes 20 ms, and a class of 200 votes at once. What a crash of
    # the machine's system may damage is found at the next start.
    database.execute("pragma synchronous = off")
    return database


@contextmanager
def _readable() -> Iterator[None]:
    """Raise one kind of error: Python cannot decode SQLite's own message about damaged names."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(_DAMAGED) from error


def _is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
